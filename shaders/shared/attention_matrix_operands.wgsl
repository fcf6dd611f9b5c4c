#import "shared/attention_params.wgsl"
@bind var<storage, read> {{Q}}: array<{{Q_ELEMENT}}>;
#if !PACKED
@bind var<storage, read> k: array<{{K_ELEMENT}}>;
@bind var<storage, read> v: array<{{V_ELEMENT}}>;
#endif
