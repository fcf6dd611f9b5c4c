// Draws the histograms of a Tally from its counts: 64 bars a panel, an instance each, the tallest as high as the panel.
struct View {
    size: vec2<f32>, // of the window, pixels
}

struct Panel {
    box: vec4<f32>, // x, y, width, height, pixels from the top left
    color: u32,
    group: u32, // in counts
    spare: vec2<u32>,
}

@group(0) @binding(0) var<uniform> view: View;
@group(0) @binding(1) var<storage, read> panels: array<Panel>;
@group(0) @binding(2) var<storage, read> counts: array<u32>;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) @interpolate(flat) color: u32,
}

@vertex
fn vertex(@builtin(vertex_index) corner: u32, @builtin(instance_index) instance: u32) -> Corner {
    let panel = panels[instance / 64u];
    let bin = instance % 64u;
    let first = panel.group * {{STRIDE}}u + {{BINS}}u;
    var tallest = 1u;
    for (var k = 0u; k < 64u; k++) {
        tallest = max(tallest, counts[first + k]);
    }
    let n = counts[first + bin];
    var height = panel.box.w * f32(n) / f32(tallest);
    if (n > 0u) {
        height = max(height, 1.0); // what is there is seen
    }
    let x = panel.box.x + panel.box.z * (f32(bin) + f32(corner & 1u)) / 64.0;
    let y = panel.box.y + panel.box.w - height * f32(corner >> 1u);
    let clip = vec2<f32>(x, y) / view.size * 2.0 - vec2<f32>(1.0);
    return Corner(vec4<f32>(clip.x, -clip.y, 0.0, 1.0), panel.color);
}

@fragment
fn fragment(in: Corner) -> @location(0) vec4<f32> { return unpack4x8unorm(in.color); }
