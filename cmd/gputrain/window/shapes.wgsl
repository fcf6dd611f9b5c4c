// Draws lines with round ends, and boxes: an instance each, in the order of the array. Colors are mixed as they are given.
struct View {
    size: vec2<f32>, // of the window, pixels
}

struct Shape {
    line: vec4<f32>, // from xy to zw, pixels from the top left
    width: f32,      // negative: the box between the points
    color: u32,
    spare: vec2<u32>,
}

@group(0) @binding(0) var<uniform> view: View;
@group(0) @binding(1) var<storage, read> shapes: array<Shape>;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) at: vec2<f32>,
    @location(1) @interpolate(flat) instance: u32,
}

@vertex
fn vertex(@builtin(vertex_index) corner: u32, @builtin(instance_index) instance: u32) -> Corner {
    let line = shapes[instance].line;
    let width = shapes[instance].width;
    let side = vec2<f32>(f32(corner & 1u), f32(corner >> 1u));
    var at = mix(line.xy, line.zw, side);
    if (width >= 0.0) {
        let reach = 0.5 * width + 1.0;
        var along = line.zw - line.xy;
        let length = length(along);
        if (length > 0.0) {
            along = along / length;
        } else {
            along = vec2<f32>(1.0, 0.0);
        }
        let across = vec2<f32>(-along.y, along.x);
        at = line.xy + along * (side.x * (length + 2.0 * reach) - reach) + across * ((side.y * 2.0 - 1.0) * reach);
    }
    let clip = at / view.size * 2.0 - vec2<f32>(1.0);
    return Corner(vec4<f32>(clip.x, -clip.y, 0.0, 1.0), at, instance);
}

@fragment
fn fragment(in: Corner) -> @location(0) vec4<f32> {
    let line = shapes[in.instance].line;
    let width = shapes[in.instance].width;
    var color = unpack4x8unorm(shapes[in.instance].color);
    if (width >= 0.0) {
        let along = line.zw - line.xy;
        let away = in.at - line.xy;
        let share = clamp(dot(away, along) / max(dot(along, along), 1e-6), 0.0, 1.0);
        let distance = length(away - along * share);
        color.a *= clamp(0.5 * width + 0.5 - distance, 0.0, 1.0);
    }
    return color;
}
