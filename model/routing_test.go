package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// What is learned of the routers with experts in balance is, beside the loss, the derivative of the coefficient times the load-balancing loss of the tokens that
// there are, by differences; Routing reads the same loss of what is told.
func TestExpertsInBalance(t *testing.T) {
	const coefficient, path, h = 0.7, "model.layers.0.mlp.gate.weight", 1e-4
	g := readGolden(t, "qwen3_moe_small")
	def, err := WithBalance(g.def, coefficient)
	require.NoError(t, err)
	require.Equal(t, Routing{Layers: 2, Experts: 8, Chosen: 3}, RoutingOf(def))
	built, err := def.Build(g.Batch, g.SeqLen, Options{Loss: true})
	require.NoError(t, err)
	router := built.Graph.Param(path, 8, 32)
	var grads [2]*graph.Value
	for i, of := range []*graph.Value{built.Loss, built.Learned} {
		all, err := graph.Gradients(built.Graph, of, []*graph.Value{router})
		require.NoError(t, err)
		grads[i] = all[0]
	}
	feeds := g.feeds(t, 1)
	feeds[InputThere], feeds[InputBalance] = graph.NewArray([]int{g.Batch * g.SeqLen}), arrayOf([]int{}, []float32{1})
	for i := range feeds[InputThere].Data {
		feeds[InputThere].Data[i] = float64(min(1, i%g.SeqLen/3)) // all but the first three of each row
	}
	eval := func(of ...*graph.Value) []*graph.Array {
		out, err := graph.Eval(built.Graph, feeds, of...)
		require.NoError(t, err)
		return out
	}
	found := eval(built.Loss, built.Learned, built.Routed, grads[0], grads[1])
	told := make([]float32, RoutingOf(def).Sums())
	choices := 0.0
	for i, v := range found[2].Data {
		if told[i] = float32(v); i < len(told)/2 {
			choices += v
		}
	}
	assert.Equal(t, float64(2*3*g.Batch*(g.SeqLen-3)), choices)
	assert.InDelta(t, RoutingOf(def).Balance(told), (found[1].Data[0]-found[0].Data[0])/coefficient, 1e-6)
	for _, at := range []int{0, 37, 255} {
		w := feeds[path].Data
		var beside [2]float64
		for i, step := range []float64{h, -2 * h} {
			w[at] += step
			both := eval(built.Loss, built.Learned)
			beside[i] = both[1].Data[0] - both[0].Data[0]
		}
		w[at] += h
		assert.InDelta(t, (beside[0]-beside[1])/(2*h), found[4].Data[at]-found[3].Data[at], 1e-8, "element %d", at)
	}
}

// Who says how much it counts: config.json where it has experts balanced, and who asks for another.
func TestBalanceOfFiles(t *testing.T) {
	def := readGolden(t, "qwen3_moe_small").def
	of := func(def Definition) float64 { return def.(decoder).layers[1].experts.balance }
	assert.Zero(t, of(def))
	with, err := WithBalance(def, 0.25)
	require.NoError(t, err)
	raw, err := ConfigJSON(with, "F32")
	require.NoError(t, err)
	again, err := ParseConfig(raw)
	require.NoError(t, err)
	assert.Equal(t, []float64{0.25, 0.25, 0}, []float64{of(with), of(again), of(def)})
	assert.False(t, Same(def, with))
	_, err = WithBalance(readGolden(t, "qwen3_qknorm").def, 0.25)
	assert.ErrorContains(t, err, "qwen3: router_aux_loss_coef: found 0.25, wanted none: it has no experts")
	greatest, least, entropy := Routing{2, 2, 1}.Spread([]int64{5, 5, 8, 0})
	assert.Equal(t, []float64{1, 0, 0.5}, []float64{greatest, least, entropy})
}
