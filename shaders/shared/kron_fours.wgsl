// The fours of a factor, as it is stored. {{NAME}}_at is one of them.
#import "shared/bf16.wgsl"
#if BF16
@bind var<storage, {{ACCESS}}> {{NAME}}: array<vec2<u32>>;
fn {{NAME}}_at(i: u32) -> vec4<f32> { return bf16_unpack4({{NAME}}[i]); }
#else
@bind var<storage, {{ACCESS}}> {{NAME}}: array<vec4<f32>>;
fn {{NAME}}_at(i: u32) -> vec4<f32> { return {{NAME}}[i]; }
#endif
