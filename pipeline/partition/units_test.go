package partition

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/model"
)

// built is the graph of two sequences of eight tokens.
func built(t *testing.T, def model.Definition, err error) *model.Built {
	t.Helper()
	require.NoError(t, err)
	seq := 8
	if def.Vocab() == 0 {
		seq = 1
	}
	b, err := def.Build(2, seq, model.Options{Loss: true, Training: true})
	require.NoError(t, err)
	return b
}

func gpt2(t *testing.T, layers int, untied bool) *model.Built {
	def, err := model.NewGPT2(model.GPT2Config{Layers: layers, Heads: 2, Width: 8, Vocab: 32, Context: 16, Untied: untied, ResidualDropout: 0.1})
	return built(t, def, err)
}

func unitsOf(t *testing.T, b *model.Built) []Unit {
	t.Helper()
	units, err := Units(b)
	require.NoError(t, err)
	return units
}

func unitNames(units []Unit) (list []string) {
	for _, u := range units {
		list = append(list, u.Name)
	}
	return list
}

func TestUnitsAreTheLayers(t *testing.T) {
	llama := func(tied bool) *model.Built {
		def, err := model.NewLlama(model.LlamaConfig{Layers: 2, Heads: 2, KVHeads: 1, Width: 8, Vocab: 32, Context: 16, Tied: tied})
		return built(t, def, err)
	}
	mlp, err := model.NewMLP(model.MLPConfig{Sizes: []int{6, 5, 4, 3}, Loss: "mse"})
	for _, c := range []struct {
		name  string
		built *model.Built
		want  []string
		head  []string // parameters of the last unit
	}{
		{"gpt2", gpt2(t, 3, false), []string{"embedding", "h.0", "h.1", "h.2", "head"}, []string{"ln_f.weight", "ln_f.bias"}},
		{"gpt2 untied", gpt2(t, 2, true), []string{"embedding", "h.0", "h.1", "head"}, []string{"ln_f.weight", "ln_f.bias", "lm_head.weight"}},
		{"gpt2 of eleven layers", gpt2(t, 11, false), []string{"embedding", "h.0", "h.1", "h.2", "h.3", "h.4", "h.5", "h.6", "h.7", "h.8", "h.9", "h.10", "head"}, nil},
		{"llama", llama(false), []string{"embedding", "model.layers.0", "model.layers.1", "head"}, []string{"model.norm.weight", "lm_head.weight"}},
		{"llama tied", llama(true), []string{"embedding", "model.layers.0", "model.layers.1", "head"}, []string{"model.norm.weight"}},
		{"mlp", built(t, mlp, err), []string{"layers.0", "layers.1", "layers.2"}, []string{"layers.2.weight", "layers.2.bias"}},
	} {
		units := unitsOf(t, c.built)
		assert.Equal(t, c.want, unitNames(units), c.name)
		if c.head != nil {
			assert.Equal(t, c.head, units[len(units)-1].Params, c.name)
		}
		seen, bytes, work := map[string]bool{}, uint64(0), int64(0)
		for _, u := range units {
			for _, path := range u.Params {
				assert.False(t, seen[path], "%s: %s twice", c.name, path)
				seen[path] = true
			}
			bytes += u.Bytes
			work += u.FLOPs
		}
		elements := 0
		for _, p := range c.built.Params {
			elements += p.Type().Elements()
		}
		assert.Len(t, seen, len(c.built.Params), c.name)
		assert.Equal(t, 4*uint64(elements), bytes, c.name)
		assert.Equal(t, c.built.Graph.FLOPs(c.built.Loss), work, c.name)
	}
}

// Of a GPT-2 only the residual stream crosses a cut, tied or not: [16, 8] in f32; the work of a layer is that of its products, norms and attention.
func TestUnitsOfGPT2InFigures(t *testing.T) {
	for _, untied := range []bool{false, true} {
		units := unitsOf(t, gpt2(t, 3, untied))
		for _, u := range units[:4] {
			assert.Equal(t, uint64(4*16*8), u.Activation, u.Name)
		}
		assert.Zero(t, units[4].Activation)
		assert.Equal(t, uint64(4*(32*8+16*8)), units[0].Bytes, "embeddings")
		assert.Equal(t, 2*units[0].Bytes, units[0].Memory)
		products := int64(2 * 16 * 8 * (24 + 8 + 32 + 32))
		assert.Greater(t, units[1].FLOPs, products)
		assert.Less(t, units[1].FLOPs, 2*products)
		assert.Equal(t, units[1].FLOPs, units[2].FLOPs)
		assert.Greater(t, units[4].FLOPs, int64(2*16*8*32), "the product with the head is the head's, also where the weight is the embedding's")
	}
}

// The graph of a backward pass is not work of the units.
func TestUnitsLeaveTheBackwardPassOut(t *testing.T) {
	b := gpt2(t, 2, false)
	want := unitsOf(t, b)
	_, err := graph.Gradients(b.Graph, b.Loss, b.Params)
	require.NoError(t, err)
	assert.Equal(t, want, unitsOf(t, b))
}

// chain is a model whose parameters are vectors, each multiplied into what came before.
func chain(paths ...string) *model.Built {
	g := graph.New()
	x := g.Input("x", graph.Type{Shape: []int{4}, DType: buffers.F32})
	for _, path := range paths {
		x = g.Mul(x, g.Param(path, 4))
	}
	return &model.Built{Graph: g, Loss: g.Sum(x)}
}

func TestUnitsOfUnusualOrders(t *testing.T) {
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{"a", "b"}, "[embedding:[a b]]"},
		{[]string{"h.0.w", "mid.scale", "mid.bias", "h.1.w"}, "[h.0:[h.0.w] mid:[mid.scale mid.bias] h.1:[h.1.w]]"},
		{[]string{"h.0.a", "h.1.a", "h.0.b", "h.1.b", "h.2.a"}, "[h.0:[h.0.a h.1.a h.0.b h.1.b] h.2:[h.2.a]]"},
		{[]string{"e", "h.0.a", "mid", "h.1.a", "h.0.b", "n"}, "[embedding:[e] h.0:[h.0.a mid h.1.a h.0.b] head:[n]]"},
		{[]string{"h.0.a", "h.1.a", "h.0.a"}, "[h.0:[h.0.a] h.1:[h.1.a]]"}, // tied to the first
		{[]string{"l1.w", "x2y.w", "7"}, "[embedding:[l1.w x2y.w] 7:[7]]"},
	} {
		text := []string{}
		for _, u := range unitsOf(t, chain(c.paths...)) {
			text = append(text, fmt.Sprintf("%s:%v", u.Name, u.Params))
		}
		assert.Equal(t, c.want, fmt.Sprint(text))
	}
}

// What skips a unit crosses the cut behind it too.
func TestActivationsThatSkipAUnit(t *testing.T) {
	g := graph.New()
	x := g.Input("x", graph.Type{Shape: []int{4}, DType: buffers.F32})
	early := g.Mul(x, g.Param("h.0.w", 4))
	y := g.Mul(g.Sum(early), g.Param("h.1.w", 4))
	y = g.Add(g.Mul(y, g.Param("h.2.w", 4)), early)
	units := unitsOf(t, &model.Built{Graph: g, Loss: g.Sum(y)})
	// The sum [] and the early vector behind h.0, the product and the early vector behind h.1.
	assert.Equal(t, []uint64{4 * (1 + 4), 4 * (4 + 4), 0}, []uint64{units[0].Activation, units[1].Activation, units[2].Activation})
}

func TestUnitsRefuseWhatIsNoModel(t *testing.T) {
	g := graph.New()
	_, err := Units(&model.Built{Graph: g, Loss: g.Sum(g.Input("x", graph.Type{Shape: []int{4}, DType: buffers.F32}))})
	assert.ErrorContains(t, err, "found a graph without parameters")
	g.Reshape(g.Constant(1), 7)
	_, err = Units(&model.Built{Graph: g})
	assert.ErrorContains(t, err, "pipeline: units: graph:")
}
