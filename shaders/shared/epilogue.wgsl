// What is made of a kernel's result, and its operands; written by package graph/compile.
{{OPERANDS}}
#import "shared/functions.wgsl" T=vec4<f32>
#if BF16
#import "shared/bf16.wgsl"
#endif

// Stores what follows vec4 i of the result.
fn finish(i: u32, given: vec4<f32>) {
{{FINISH}}
}
