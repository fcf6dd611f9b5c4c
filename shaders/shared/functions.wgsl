// Functions of deep learning over T, f32 or vec4<f32>: finite for every finite argument, absolute error a few 1e-7.

// tanh as a ratio of polynomials (the single-precision coefficients of Eigen and XLA): built-in ones overflow on some devices.
fn f_tanh(a: {{T}}) -> {{T}} {
    let x = clamp(a, {{T}}(-7.9053111), {{T}}(7.9053111));
    let s = x * x;
    let p = ((((((s * -2.76076847742355e-16 + 2.00018790482477e-13) * s - 8.60467152213735e-11) * s + 5.12229709037114e-08) * s
        + 1.48572235717979e-05) * s + 6.37261928875436e-04) * s + 4.89352455891786e-03);
    let q = ((s * 1.19825839466702e-06 + 1.18534705686654e-04) * s + 2.26843463243900e-03) * s + 4.89352518554385e-03;
    return x * p / q;
}

// 4 e / (1 + e)^2 with e = exp(-2|x|): 1 - tanh^2 without cancellation.
fn f_tanh_slope(x: {{T}}) -> {{T}} {
    let e = exp(-2.0 * min(abs(x), {{T}}(43.0)));
    return 4.0 * e / ((1.0 + e) * (1.0 + e));
}

fn f_sigmoid(x: {{T}}) -> {{T}} {
    return 1.0 / (1.0 + exp(-max(x, {{T}}(-87.0))));
}

fn f_sigmoid_slope(x: {{T}}) -> {{T}} {
    let e = exp(-min(abs(x), {{T}}(87.0)));
    return e / ((1.0 + e) * (1.0 + e));
}

// sigmoid(u) + t sigmoid'(u), by one exponential; t is finite where sigmoid' vanishes.
fn f_sigmoid_and_slope(u: {{T}}, t: {{T}}) -> {{T}} {
    let e = exp(-min(abs(u), {{T}}(87.0)));
    let r = 1.0 / (1.0 + e);
    return r * (select(e, {{T}}(1.0), u > {{T}}(0.0)) + t * e * r);
}

// d/dx of x sigmoid(x).
fn f_silu_slope(x: {{T}}) -> {{T}} {
    return f_sigmoid_and_slope(x, clamp(x, {{T}}(-87.0), {{T}}(87.0)));
}

// sqrt(2/pi) (x + 0.044715 x^3); |x| is bounded where the result is saturated long since.
fn f_gelu_inner(a: {{T}}) -> {{T}} {
    let x = clamp(a, {{T}}(-16.0), {{T}}(16.0));
    return 0.7978845608 * (x + 0.044715 * x * x * x);
}

// d/dx of x sigmoid(2 inner(x)), which is x/2 (1 + tanh(inner(x))).
fn f_gelu_tanh_slope(a: {{T}}) -> {{T}} {
    let x = clamp(a, {{T}}(-16.0), {{T}}(16.0));
    return f_sigmoid_and_slope(2.0 * f_gelu_inner(x), x * (1.5957691216 * (1.0 + 0.134145 * x * x)));
}

// The distribution function of the standard normal, (1 + erf(x / sqrt 2)) / 2, erf as a ratio of polynomials (the
// single-precision coefficients of Eigen and XLA).
fn f_normal_cdf(a: {{T}}) -> {{T}} {
    let x = clamp(a * 0.7071067812, {{T}}(-4.0), {{T}}(4.0));
    let s = x * x;
    let p = ((((((s * -2.72614225801306e-10 + 2.77068142495902e-08) * s - 2.10102402082508e-06) * s - 5.69250639462346e-05) * s
        - 7.34990630326855e-04) * s - 2.95459980854025e-03) * s - 1.60960333262415e-02);
    let q = (((s * -1.45660718464996e-05 - 2.13374055278905e-04) * s - 1.68282697438203e-03) * s - 7.37332916720468e-03) * s
        - 1.42647390514189e-02;
    return 0.5 + 0.5 * (x * p / q);
}

// d/dx of x cdf(x): cdf(x) + x density(x).
fn f_gelu_erf_slope(a: {{T}}) -> {{T}} {
    let x = clamp(a, {{T}}(-16.0), {{T}}(16.0));
    return f_normal_cdf(x) + x * 0.3989422804 * exp(-0.5 * x * x);
}
