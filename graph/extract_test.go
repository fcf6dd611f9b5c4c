package graph

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

// halves is exp(a w) + b, cut behind the product.
func halves(t *testing.T) (g *Graph, product, sum *Value, first, second *Extracted) {
	t.Helper()
	g = New()
	product = g.MatMul(g.Input("a", f32(4, 3)), g.Param("w", 3, 5), false, false)
	sum = g.Add(g.Apply("exp", product), g.Input("b", f32(4, 5)))
	require.NoError(t, g.Err())
	first, err := g.Extract([]*Value{product}, nil)
	require.NoError(t, err)
	second, err = g.Extract([]*Value{sum}, map[*Value]string{product: "product"})
	require.NoError(t, err)
	return g, product, sum, first, second
}

func kinds(g *Graph) []string {
	var out []string
	for _, n := range g.Nodes() {
		out = append(out, n.Op.Kind())
	}
	return out
}

func TestExtract(t *testing.T) {
	g, product, sum, first, second := halves(t)
	assert.Equal(t, []string{"input", "param", "matmul"}, kinds(first.Graph))
	assert.Equal(t, []string{"input", "elementwise", "input", "elementwise"}, kinds(second.Graph))
	assert.Nil(t, first.Value(sum))
	feeds := map[string]*Array{
		"a": {Shape: []int{4, 3}, Data: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
		"w": {Shape: []int{3, 5}, Data: []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, 1, -.1, -.2, -.3, -.4, -.5}},
		"b": {Shape: []int{4, 5}, Data: make([]float64, 20)},
	}
	whole, err := Eval(g, feeds, sum)
	require.NoError(t, err)
	half, err := Eval(first.Graph, feeds, first.Value(product))
	require.NoError(t, err)
	rest, err := Eval(second.Graph, map[string]*Array{"product": half[0], "b": feeds["b"]}, second.Value(sum))
	require.NoError(t, err)
	assert.Equal(t, whole[0].Data, rest[0].Data)

	_, err = g.Extract([]*Value{sum}, map[*Value]string{product: "b"})
	require.EqualError(t, err, `graph: extract: given value matmul "w": the name "b" is taken`)
	_, err = g.Extract([]*Value{second.Value(sum)}, nil)
	require.EqualError(t, err, "graph: extract: a wanted value is not of this graph")
}

// Two programs that read and write one buffer of the caller's, over one arena, compute what one program does.
func TestBindAndArena(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		g, product, sum, first, second := halves(t)
		data := make([]float32, 15)
		for i := range data {
			data[i] = float32(i) / 15
		}
		params, err := buffers.Upload(d, "params", []buffers.Host{{Path: "w", Shape: []int{3, 5}, Data: data}}, buffers.F32)
		require.NoError(t, err)
		defer params.Release()
		crossing, err := d.NewBuffer("crossing", product.Type().Bytes())
		require.NoError(t, err)
		defer crossing.Release()
		plan := func(e *Extracted, v *Value, name string) Plan {
			p, err := PlanFor(e.Graph, []Target{{Name: name, Value: e.Value(v)}}, d.Limits(), "product")
			require.NoError(t, err)
			return p
		}
		arena, err := NewArena(d, "test", ArenaSizes(plan(first, product, "product"), plan(second, sum, "sum")))
		require.NoError(t, err)
		defer arena.Release()
		compile := func(e *Extracted, v *Value, name string) *Program {
			p, err := Compile(t.Context(), d, e.Graph, CompileOptions{
				Params: params, Targets: []Target{{Name: name, Value: e.Value(v)}}, Bind: map[string]gpu.Range{"product": crossing.All()}, Arena: arena,
			})
			require.NoError(t, err)
			t.Cleanup(p.Release)
			return p
		}
		before, behind := compile(first, product, "product"), compile(second, sum, "sum")
		assert.NotContains(t, behind.Inputs(), "product", "its writer is another program")
		require.ErrorContains(t, behind.WriteFloats("product", make([]float32, 20)), "not one of the program")
		whole, err := Compile(t.Context(), d, g, CompileOptions{Params: params, Targets: []Target{{Name: "sum", Value: sum}}})
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
		_, err = Compile(t.Context(), d, first.Graph, CompileOptions{
			Params: params, Targets: []Target{{Name: "product", Value: first.Value(product)}}, Bind: map[string]gpu.Range{"product": small.All()},
		})
		require.EqualError(t, err, `graph: compile: bound "product": 16 bytes, want 80`)
	})
}
