// The fours of a factor that changes: {{NAME}}_keep stores one, to nearest even.
#import "shared/kron_fours.wgsl" NAME={{NAME}} ACCESS=read_write
#if BF16
fn {{NAME}}_keep(i: u32, v: vec4<f32>) { {{NAME}}[i] = bf16_pack4(v); }
#else
fn {{NAME}}_keep(i: u32, v: vec4<f32>) { {{NAME}}[i] = v; }
#endif
