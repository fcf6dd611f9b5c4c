package optim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// BenchmarkAdamW measures updates of 16.8 M parameters, decay and rate included, against a copy by kernel of the same
// trees on the same adapter: copy_ratio is the rate of bytes in relation to the copy's.
func BenchmarkAdamW(b *testing.B) {
	const elements = 16 << 20
	for name, options := range map[string]Options{
		"plain":  {Schedule: ScheduleConfig{LearningRate: 1e-3}, WeightDecay: 0.1},
		"masked": {Schedule: ScheduleConfig{LearningRate: 1e-3}, WeightDecay: 0.1, WeightDecayMask: MaskMatrices()},
		"norm":   {Schedule: ScheduleConfig{LearningRate: 1e-3}, WeightDecay: 0.1, MeasureNorm: true, SkipNonFinite: true},
	} {
		for label, parameters := range map[string]string{"f32": `{}`, "mu_bf16": `{"mu_dtype":"bf16"}`, "8bit": `{"state_dtype":"8bit"}`} {
			b.Run(name+"/"+label, func(b *testing.B) {
				d := gputest.Device(b)
				tx := built(b, "adamw", options, parameters)
				layout, err := buffers.NewLayout([]buffers.Spec{{Path: "w", Shape: []int{elements / 1024, 1024}}}, d.Limits())
				require.NoError(b, err)
				tree := func(label string) *buffers.Tree {
					t, err := buffers.NewTree(d, label, layout, buffers.F32)
					require.NoError(b, err)
					b.Cleanup(t.Release)
					return t
				}
				params, grads := tree("params"), tree("grads")
				s, err := tx.Init(params)
				require.NoError(b, err)
				b.Cleanup(s.Release)
				fill := d.Record("fill")
				require.NoError(b, buffers.Fill(fill, params, 0.5))
				require.NoError(b, buffers.Fill(fill, grads, 0.01))
				require.NoError(b, fill.Submit(b.Context()))
				update := d.Record("update")
				require.NoError(b, tx.Update(update, grads, s, params))
				copying := d.Record("copy")
				copying.Dispatch(copyKernel, gpu.Linear(elements/4, 64, d.Limits()), nil, params.Slab(0), grads.Slab(0))

				program, copier := programOf(b, update), programOf(b, copying)
				timed := func(p *gpu.Program) time.Duration {
					require.NoError(b, d.Wait(b.Context()))
					start := time.Now()
					require.NoError(b, p.Submit(b.Context()))
					require.NoError(b, d.Wait(b.Context()))
					return time.Since(start)
				}
				timed(copier)
				best, copied := time.Hour, time.Hour
				for b.Loop() {
					_, err := s.Prepare()
					require.NoError(b, err)
					best = min(best, timed(program))
					copied = min(copied, timed(copier))
				}
				traffic := tx.Cost().TrafficBytes
				rate := traffic * elements / best.Seconds() / 1e9
				copyRate := 8 * elements / copied.Seconds() / 1e9
				b.ReportMetric(rate, "best_GB/s")
				b.ReportMetric(copyRate, "copy_GB/s")
				b.ReportMetric(rate/copyRate, "copy_ratio")
				b.ReportMetric(traffic, "B/element")
			})
		}
	}
}

// copyKernel is the plainest copy: one vec4 an invocation.
var copyKernel = gpu.KernelOf("gputrain.optim.bench_copy", `@group(0) @binding(0) var<storage, read_write> dst: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> src: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let i = (wg.y * n.x + wg.x) * 64u + lane;
    if (i < arrayLength(&src)) { dst[i] = src[i]; }
}`)

func programOf(t testing.TB, rec *gpu.Recording) *gpu.Program {
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	t.Cleanup(p.Release)
	return p
}
