#import "shared/attention_params.wgsl"
@bind var<storage, read> {{Q}}: array<{{ELEMENT}}>;
#if !PACKED
@bind var<storage, read> k: array<{{ELEMENT}}>;
@bind var<storage, read> v: array<{{ELEMENT}}>;
#endif
