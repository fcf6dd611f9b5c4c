// What the logarithms s and t of the shares of one category add to a divergence of p.beta (graph.HeadDivergence). -3e38 stands for minus infinity.
const LOWEST = -3.0e38;

fn capped(z: f32, cap: f32) -> f32 {
    if (cap > 0.0) {
        return cap * f_tanh(z / cap);
    }
    return z;
}

// (what is added to the divergence, to sum s' h, and h): the slope of a logit is (s' h - s' sum s' h) / temperature. At beta 0 it is s' - t', and h is 1 - t'/s'.
fn apart(s: f32, t: f32) -> vec3<f32> {
    let q = exp(t);
    if (p.beta == 0.0) {
        return vec3<f32>(q * (t - s), 0.0, 1.0 - exp(t - s));
    }
    let own = exp(s);
    if (p.beta == 1.0) {
        let h = s - t;
        return vec3<f32>(own * h, own * h, h);
    }
    let x = s + log(1.0 - p.beta);
    let y = t + log(p.beta);
    let m = max(x, y) + log(1.0 + exp(-abs(x - y)));
    let h = (1.0 - p.beta) * (s - m);
    return vec3<f32>(p.beta * q * (t - m) + own * h, own * h, h);
}
