#import "shared/attention_params.wgsl"
@group(0) @binding(0) var<uniform> p: Params;
#if PACKED
@group(0) @binding(1) var<storage, read> qkv: array<{{ELEMENT}}>;
@group(0) @binding(2) var<storage, read> lse: array<f32>;
@group(0) @binding(3) var<storage, read> dout: array<{{ELEMENT}}>;
@group(0) @binding(4) var<storage, read> delta: array<f32>;
@group(0) @binding(5) var<storage, read_write> dqkv: array<{{ELEMENT}}>;
#if DOCUMENTS
@group(0) @binding(6) var<storage, read> seen: array<vec2<u32>>;
#endif
#else
@group(0) @binding(1) var<storage, read> q: array<{{ELEMENT}}>;
@group(0) @binding(2) var<storage, read> k: array<{{ELEMENT}}>;
@group(0) @binding(3) var<storage, read> v: array<{{ELEMENT}}>;
@group(0) @binding(4) var<storage, read> lse: array<f32>;
@group(0) @binding(5) var<storage, read> dout: array<{{ELEMENT}}>;
@group(0) @binding(6) var<storage, read> delta: array<f32>;
@group(0) @binding(7) var<storage, read_write> dk: array<{{ELEMENT}}>;
@group(0) @binding(8) var<storage, read_write> dv: array<{{ELEMENT}}>;
#if DOCUMENTS
@group(0) @binding(9) var<storage, read> seen: array<vec2<u32>>;
#endif
#endif
#import "shared/attention_limits.wgsl"
