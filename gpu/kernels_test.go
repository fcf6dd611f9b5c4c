package gpu_test

import (
	"encoding/binary"
	"math"

	"gputrain/gpu"
)

// addKernel computes out = a + b*scale for count elements.
var addKernel = gpu.KernelOf("gputrain.test.add", `
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
`)

type addition struct {
	Count uint32
	Scale float32
}

func addParams(count int, scale float32) any { return addition{uint32(count), scale} }

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
