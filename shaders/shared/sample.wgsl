struct Params {
    columns: u32,
    stride: u32, // of a row, in the unit of logits
    chunks: u32, // of a row
    unused: u32,
}
@bind var<uniform> p: Params;

const LOWEST = -1.0e30; // of logits, so that they have finite differences, at any temperature
const STEPS = {{STEPS}}u;
const CHUNK = {{LANES}}u * STEPS; // in quads of columns

// cold is whether the greatest logit is taken.
fn cold(temperature: f32) -> bool { return temperature < 9.5367431640625e-7; }

fn scale_of(temperature: f32) -> f32 {
    if (cold(temperature)) {
        return 1.0;
    }
    return 1.0 / temperature;
}
