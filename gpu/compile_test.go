package gpu_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/internal/gputest"
)

// variants are kernels that differ in a constant.
func variants(n int) []*gpu.Kernel {
	var out []*gpu.Kernel
	for i := range n {
		k := *addKernel
		k.Label = fmt.Sprintf("%s_%d", k.Label, i)
		k.Source = strings.ReplaceAll(k.Source, "a[i] +", fmt.Sprintf("a[i] + %d.0 +", i))
		out = append(out, &k)
	}
	return out
}

func TestCompileReportsProgress(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		kernels := variants(12)
		kernels = append(kernels, kernels[:4]...)
		var seen []int
		require.NoError(t, d.Compile(t.Context(), kernels, func(done, total int) {
			require.Equal(t, 16, total)
			seen = append(seen, done)
		}))
		require.Len(t, seen, 16)
		for i, done := range seen {
			require.Equal(t, i+1, done)
		}
		require.Equal(t, uint64(12), d.Counters().Pipelines)
		require.NoError(t, d.Compile(t.Context(), kernels, nil))
		require.Equal(t, uint64(12), d.Counters().Pipelines)
	})
}

func TestCompileErrors(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		cases := []struct {
			name, old, new string
			want           []string
		}{
			{"syntax", "let i =", "let i := ", []string{`kernel "gputrain.test.bad"`, "let i := ", "wgsl:"}},
			{"type", "out[i] = a[i]", "out[i] = vec2(a[i])", []string{`kernel "gputrain.test.bad"`}},
			{"no main", "fn main", "fn other", []string{`kernel "gputrain.test.bad"`, "main"}},
			{"access", "var<storage, read> a", "var<storage, read_write> a", []string{`kernel "gputrain.test.bad"`}},
			{"missing binding", "@binding(3)", "@binding(4)", []string{`kernel "gputrain.test.bad"`}},
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				k := *addKernel
				k.Label, k.Source = "gputrain.test.bad", strings.Replace(k.Source, c.old, c.new, 1)
				// In the middle of good ones, compiled by other threads at the same time.
				kernels := append(append(variants(3), &k), variants(6)[3:]...)
				err := d.Compile(t.Context(), kernels, nil)
				for _, w := range c.want {
					require.ErrorContains(t, err, w)
				}
				t.Log(err)
				require.NoError(t, d.Err())
				require.NoError(t, d.Compile(t.Context(), variants(6), nil), "the others are good")
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, d.Compile(ctx, variants(2), nil), context.Canceled)
	})
}

// Params shorter than the kernel's struct are found when encoding; the process continues.
func TestShortParamsAreAnError(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		k := *addKernel
		k.Source = strings.Replace(k.Source, "scale: f32 }", "scale: f32, more: array<vec4<f32>, 4> }", 1)
		a, b, out := storage(t, d, "a", 1), storage(t, d, "b", 1), storage(t, d, "out", 1)
		rec := d.Record("short")
		rec.Dispatch(&k, gpu.Grid{X: 1, Y: 1, Z: 1}, addParams(1, 1), a.All(), b.All(), out.All())
		err := rec.Submit(t.Context())
		require.Error(t, err)
		t.Log(err)
		require.Equal(t, []float32{1}, read(t, d, out.All()))
		rec = d.Record("good")
		add(rec, d, out, a, b, 1)
		require.NoError(t, rec.Submit(t.Context()))
		require.Equal(t, []float32{2}, read(t, d, out.All()))
	})
}

func TestCompileReturnsAPanic(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		var bug *caught.Panic
		require.ErrorAs(t, d.Compile(t.Context(), variants(4), func(done, _ int) {
			if done == 2 {
				panic("lost count")
			}
		}), &bug)
		assert.Equal(t, "lost count", bug.Value)
	})
}
