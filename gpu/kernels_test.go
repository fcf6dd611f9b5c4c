package gpu_test

import (
	"encoding/binary"
	"math"

	"gputrain/gpu"
)

// addKernel computes out = a + b*scale for count elements.
var addKernel = &gpu.Kernel{
	Label: "gputrain.test.add",
	Source: `
struct Params { count: u32, scale: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) l: u32) {
    let i = (wg.y * n.x + wg.x) * 64u + l;
    if (i < params.count) { out[i] = a[i] + b[i] * params.scale; }
}
`,
	Bindings:  []gpu.Binding{{"params", gpu.Uniform}, {"a", gpu.Read}, {"b", gpu.Read}, {"out", gpu.ReadWrite}},
	Workgroup: [3]int{64, 1, 1},
}

func addParams(count int, scale float32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(count)), math.Float32bits(scale))
}

func floats(raw []byte) []float32 {
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

func raw(values ...float32) []byte {
	var out []byte
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

func ramp(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i)
	}
	return out
}
