package compile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// Two programs that read and write one buffer of the caller's, over one arena, compute what one program does.
func TestBindAndArena(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		g := graph.New() // exp(a w) + b, cut behind the product
		product := g.MatMul(g.Input("a", graph.F32(4, 3)), g.Param("w", 3, 5), false, false)
		sum := g.Add(g.Apply("exp", product), g.Input("b", graph.F32(4, 5)))
		first, err := g.Extract([]*graph.Value{product}, nil)
		require.NoError(t, err)
		second, err := g.Extract([]*graph.Value{sum}, map[*graph.Value]string{product: "product"})
		require.NoError(t, err)
		data := make([]float32, 15)
		for i := range data {
			data[i] = float32(i) / 15
		}
		params, err := buffers.Upload(d, "params", []buffers.Host{{Path: "w", Shape: []int{3, 5}, Data: data}}, buffers.F32)
		require.NoError(t, err)
		defer params.Release()
		crossing, err := d.NewBuffer("crossing", Bytes(product.Type()))
		require.NoError(t, err)
		defer crossing.Release()
		plan := func(e *graph.Extracted, v *graph.Value, name string) Plan {
			p, err := PlanNarrow(t.Context(), e.Graph, []Target{{Name: name, Value: e.Value(v)}}, nil, nil, d.Limits(), "product")
			require.NoError(t, err)
			return p
		}
		arena, err := NewArena(d, "test", plan(first, product, "product"), plan(second, sum, "sum"))
		require.NoError(t, err)
		defer arena.Release()
		compile := func(e *graph.Extracted, v *graph.Value, name string) *Program {
			p, err := New(t.Context(), d, e.Graph, Options{
				Params: params, Targets: []Target{{Name: name, Value: e.Value(v)}}, Bind: map[string]gpu.Range{"product": crossing.All()}, Arena: arena,
			})
			require.NoError(t, err)
			t.Cleanup(p.Release)
			return p
		}
		before, behind := compile(first, product, "product"), compile(second, sum, "sum")
		assert.NotContains(t, behind.Inputs(), "product", "its writer is another program")
		require.ErrorContains(t, behind.WriteFloats("product", make([]float32, 20)), "not one of the program")
		whole, err := New(t.Context(), d, g, Options{Params: params, Targets: []Target{{Name: "sum", Value: sum}}})
		require.NoError(t, err)
		defer whole.Release()
		a, b := make([]float32, 12), make([]float32, 20)
		for i := range b {
			a[i%12], b[i] = float32(i), float32(-i)
		}
		for _, p := range []*Program{before, whole} {
			require.NoError(t, p.WriteFloats("a", a))
		}
		for _, p := range []*Program{behind, whole} {
			require.NoError(t, p.WriteFloats("b", b))
		}
		for _, p := range []*Program{before, behind, whole} {
			rec := d.Record("test")
			p.Record(rec)
			require.NoError(t, rec.Submit(t.Context()))
		}
		assert.Equal(t, readRange(t, d, whole.Output("sum"), 20), readRange(t, d, behind.Output("sum"), 20))

		small, err := d.NewBuffer("small", 16)
		require.NoError(t, err)
		defer small.Release()
		_, err = New(t.Context(), d, first.Graph, Options{
			Params: params, Targets: []Target{{Name: "product", Value: first.Value(product)}}, Bind: map[string]gpu.Range{"product": small.All()},
		})
		require.EqualError(t, err, `graph: compile: bound "product": 16 bytes, want 80`)
	})
}
