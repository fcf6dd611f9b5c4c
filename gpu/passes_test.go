package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/gpu"
)

// How often an array is moved follows from how the kernel names it.
func TestPassesOfAKernel(t *testing.T) {
	for statement, want := range map[string]int{
		"out[i] = a[i];":                             1,
		"out[4 * u32(a[i].x) + j].y = 1.0;":          1,
		"let v = out[i];":                            1,
		"if (out[i] == a[i]) { return; }":            1,
		"out[i] = out[i + 1];":                       2,
		"out[i] += a[i];":                            2,
		"out[i] *= a[i];":                            2,
		"let v = out[i]; out[i] = v;":                2,
		"out[i] = a[i]; // out[i] as it was":         1,
		"out[i] = 0.0; let out = arrayLength(&out);": 1,
		"atomicAdd(&out[i], 1u);":                    2,
		"out[i] = q.out[i];":                         1,
	} {
		k := gpu.KernelOf("test", `
@group(0) @binding(0) var<uniform> p: u32;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(1) fn main() { `+statement+` }`)
		assert.Equal(t, []int{0, 1, want}, k.Passes(), statement)
	}
}
