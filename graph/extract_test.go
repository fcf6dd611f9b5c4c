package graph

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// halves is exp(a w) + b, cut behind the product.
func halves(t *testing.T) (g *Graph, product, sum *Value, first, second *Extracted) {
	t.Helper()
	g = New()
	product = g.MatMul(g.Input("a", F32(4, 3)), g.Param("w", 3, 5), false, false)
	sum = g.Add(g.Apply("exp", product), g.Input("b", F32(4, 5)))
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
