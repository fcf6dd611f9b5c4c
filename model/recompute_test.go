package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// recomputed is a network of two sequences of eight tokens with its backward pass and what is computed again in it.
func recomputed(t *testing.T, def Definition, what string) (g *graph.Graph, forward int) {
	t.Helper()
	built, err := def.Build(2, min(8, def.Context()), Options{Loss: true, Training: true})
	require.NoError(t, err)
	forward = len(built.Graph.Nodes())
	_, err = graph.Gradients(built.Graph, built.Loss, built.Params)
	require.NoError(t, err)
	e, err := Recompute(built, forward, what, nil)
	require.NoError(t, err)
	return e.Graph, forward
}

// copies counts what is computed again by kind, views left out.
func copies(g *graph.Graph, forward int) map[string]int {
	out := map[string]int{}
	for _, n := range g.Nodes()[forward:] {
		if n.Of == nil || n.Label != n.Of.Label || n.Remade() { // gradients have a label of their own
			continue
		}
		kind := n.Op.Kind()
		if f, ok := n.Op.(graph.Elementwise); ok {
			kind = f.Fn
		}
		out[kind]++
	}
	return out
}

// kept is the bytes of the forward pass that the backward pass reads.
func kept(g *graph.Graph, forward int) (bytes int) {
	seen := map[*graph.Value]bool{}
	for _, n := range g.Nodes()[forward:] {
		for _, v := range n.Inputs {
			v = v.Base()
			if _, param := v.Node().Op.(graph.Param); v.Node().ID < forward && !param && !seen[v] {
				seen[v] = true
				bytes += 4 * v.Type().Elements()
			}
		}
	}
	return bytes
}

func TestWhatIsComputedAgain(t *testing.T) {
	const layers, rows, width, inner, lse = 3, 16, 32, 96, 2 * 4 * 8
	llama, err := NewLlama(LlamaConfig{Layers: layers, Heads: 4, KVHeads: 2, Width: width, Intermediate: inner, Vocab: 40, Context: 8, Tied: true})
	require.NoError(t, err)
	gpt2, err := NewGPT2(GPT2Config{Layers: layers, Heads: 4, Width: width, Vocab: 40, Context: 8, ResidualDropout: 0.1})
	require.NoError(t, err)
	mlp, err := NewMLP(MLPConfig{Sizes: []int{6, 20, 20, 4}})
	require.NoError(t, err)

	// The input of each layer and of the last norm; the head has its own, what that norm and the loss found, tokens, labels and the scale of the loss.
	inputs := 4 * ((layers+2)*rows*width + rows + rows + 2*rows + 1)
	// Attention and its logarithms of sums, the sum behind it, and two products of the feed-forward part.
	products := 4 * layers * (2*rows*width + lse + 2*rows*inner)
	// Norms and what they found, q, k and v, and two functions.
	cheap := 4 * layers * (2*(rows*width+rows) + 2*rows*width + 2*rows*inner)
	for _, c := range []struct {
		what string
		def  Definition
		n    int // of layers that the loss is not in
		want map[string]int
		kept int
	}{
		{RecomputeNone, llama, layers, map[string]int{}, inputs + products + cheap},
		{RecomputeAttention, llama, layers, map[string]int{"rms_norm": 2, "matmul": 3, "rope": 2, "silu": 1, "mul": 1}, inputs + products},
		{RecomputeLayers, llama, layers, map[string]int{"rms_norm": 2, "matmul": 6, "rope": 2, "attention": 1, "add": 1, "silu": 1, "mul": 1}, inputs},
		{RecomputeAttention, gpt2, layers, map[string]int{"layer_norm": 2, "matmul": 1, "add": 1, "gelu_tanh": 1}, 0},
		{RecomputeLayers, gpt2, layers, map[string]int{"layer_norm": 2, "matmul": 3, "add": 4, "attention": 1, "gelu_tanh": 1, "dropout": 1}, 0},
		{RecomputeAttention, mlp, 2, map[string]int{}, 0},
		{RecomputeLayers, mlp, 2, map[string]int{"matmul": 1, "add": 1}, 0}, // what comes before its function
	} {
		g, forward := recomputed(t, c.def, c.what)
		got := copies(g, forward)
		for kind, n := range c.want {
			c.want[kind] = n * c.n
		}
		assert.Equal(t, c.want, got, "%s %s", c.def.Kind(), c.what)
		if c.kept > 0 {
			assert.Equal(t, c.kept, kept(g, forward), "%s %s", c.def.Kind(), c.what)
		}
	}
	_, err = Recompute(&Built{}, 0, "layer", nil)
	assert.EqualError(t, err, `model: recompute: found "layer", wanted one of none, attention, layers, did you mean "layers"?`)
}

// In a network that no family here has, what a later layer or another part reads is kept, and all else of a layer is not.
func TestRecomputeKeepsWhatOthersRead(t *testing.T) {
	g := graph.New()
	early := g.Mul(g.Input("x", graph.F32(4)), g.Param("block.0.w", 4))
	inner := g.Apply("exp", early)
	y := g.Apply("square", g.Mul(g.Mul(inner, g.Param("block.0.v", 4)), g.Param("block.1.w", 4)))
	loss := g.Sum(g.Apply("square", g.Mul(g.Add(y, early), g.Param("head.w", 4))))
	built := &Built{Graph: g, Loss: loss}
	forward := len(g.Nodes())
	_, err := graph.Gradients(g, loss, []*graph.Value{g.Param("block.0.w", 4), g.Param("block.0.v", 4), g.Param("block.1.w", 4)})
	require.NoError(t, err)
	again := func(part map[string]int) []int {
		e, err := Recompute(built, forward, RecomputeLayers, part)
		require.NoError(t, err)
		var ids []int
		for _, n := range e.Graph.Nodes()[forward:] {
			if n.Of != nil && n.Label == n.Of.Label {
				ids = append(ids, n.Of.ID)
			}
		}
		return ids
	}
	product := g.Nodes()[inner.Node().ID+1 : forward]
	require.Equal(t, "block.1.w", product[2].Op.(graph.Param).Path)
	assert.ElementsMatch(t, []int{inner.Node().ID, product[3].ID}, again(nil), "the exponential of block 0 and the product of block 1, not what block 1 and the head read")
	assert.ElementsMatch(t, []int{product[3].ID}, again(map[string]int{"block.0.v": 1, "block.1.w": 1, "head.w": 1}), "nor what part 1 reads")
}
