package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/gpu"
)

// How often an array is moved follows from how the kernel names it.
func TestPassesOfAKernel(t *testing.T) {
	d := gpu.Dry(gpu.Limits{})
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
		a, out := buffer(t, d, "a", 256), buffer(t, d, "out", 1024)
		assert.EqualValues(t, 256+want*1024, k.Moved([]gpu.Range{a.All(), out.All()}, 0, 0), statement)
		assert.EqualValues(t, 16+want*1024, k.Moved([]gpu.Range{a.All(), out.All()}, 0, 16), "looked up")
		assert.EqualValues(t, 256, k.Moved([]gpu.Range{a.All(), a.All()}, 0, 0), "the same range")
	}
}
