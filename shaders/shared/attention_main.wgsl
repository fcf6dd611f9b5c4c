#if BY_HEAD
#import "shared/alternating.wgsl"
#endif

@compute @workgroup_size({{WX}}, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>)
