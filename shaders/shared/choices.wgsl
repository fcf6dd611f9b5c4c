// What spread and combine bind: rows FROM, where a choice is AT, and elements of y.
#import "shared/choice_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> {{FROM}}: array<{{ELEMENT}}>;
@bind var<storage, read> {{AT}}: array<i32>;
#if WEIGHTED
@bind var<storage, read> weights: array<f32>;
#endif
@bind var<storage, read_write> y: array<{{ELEMENT}}>;
