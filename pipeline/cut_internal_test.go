package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
	"gputrain/pipeline/partition"
)

// wholeGraph is the graph of a model's step: loss, and the gradient of each parameter.
func wholeGraph(t *testing.T, def model.Definition, batch, seq int) (built *model.Built, forward int, grads []compile.Target) {
	t.Helper()
	built, err := def.Build(batch, seq, model.Options{Loss: true, Training: true})
	require.NoError(t, err)
	forward = len(built.Graph.Nodes())
	values, err := graph.Gradients(built.Graph, built.Loss, built.Params)
	require.NoError(t, err)
	for i, p := range def.Params() {
		grads = append(grads, compile.Target{Leaf: p.Path, Value: values[i]})
	}
	return built, forward, grads
}

// feeds are random inputs and parameters for everything in a graph.
func feeds(g *graph.Graph, vocab int) map[string]*graph.Array {
	rng := rand.New(rand.NewPCG(7, 1))
	out := map[string]*graph.Array{}
	for _, n := range g.Nodes() {
		typ := n.Outputs[0].Type()
		a := &graph.Array{Shape: typ.Shape, Data: make([]float64, typ.Elements())}
		for i := range a.Data {
			a.Data[i] = rng.NormFloat64() / 4
			if typ.DType != buffers.F32 {
				a.Data[i] = float64(rng.IntN(vocab))
			}
		}
		switch op := n.Op.(type) {
		case graph.Input:
			out[op.Name] = a
		case graph.Param:
			out[op.Path] = a
		}
	}
	return out
}

// owners puts layer i of n into part i*parts/n, what comes before into the first part and what comes behind into the last.
func owners(def model.Definition, layers, parts int) map[string]int {
	out := map[string]int{}
	for _, p := range def.Params() {
		at := 0
		for i := range layers {
			for _, prefix := range []string{"h.%d.", "model.layers.%d.", "layers.%d."} {
				if strings.HasPrefix(p.Path, fmt.Sprintf(prefix, i)) {
					at = i * parts / layers
				}
			}
		}
		if strings.HasPrefix(p.Path, "ln_f") || p.Path == "lm_head.weight" || p.Path == "model.norm.weight" {
			at = parts - 1
		}
		out[p.Path] = at
	}
	return out
}

func definitions(t *testing.T) map[string]model.Definition {
	t.Helper()
	gpt2 := func(untied bool, dropout float64) model.Definition {
		d, err := model.NewGPT2(model.GPT2Config{
			Layers: 4, Heads: 2, Width: 8, Vocab: 13, Context: 6, Untied: untied, ResidualDropout: dropout, EmbeddingDropout: dropout,
		})
		require.NoError(t, err)
		return d
	}
	llama := func(tied bool) model.Definition {
		d, err := model.NewLlama(model.LlamaConfig{Layers: 4, Heads: 2, KVHeads: 1, Width: 8, Vocab: 13, Context: 6, Intermediate: 12, Tied: tied})
		require.NoError(t, err)
		return d
	}
	quantized := func(d model.Definition, q model.Quantization) model.Definition {
		d, err := model.WithQuantization(d, q)
		require.NoError(t, err)
		return d
	}
	return map[string]model.Definition{
		"gpt2": gpt2(false, 0), "gpt2 untied": gpt2(true, 0), "gpt2 dropout": gpt2(false, 0.2), "llama": llama(false), "llama tied": llama(true),
		"gpt2 quantized":       quantized(gpt2(false, 0), model.Quantization{Mode: "nvfp4", Match: []string{"weight"}}),
		"llama tied quantized": quantized(llama(true), model.Quantization{Mode: "affine", Match: []string{"."}}),
	}
}

// runCut evaluates the passes of a cut by the definition of the operations, in float64, each knowing only what it is given.
func runCut(t *testing.T, c *cut, in map[string]*graph.Array, merged func(p int) bool) map[string]*graph.Array {
	t.Helper()
	known := make([]map[*graph.Value]*graph.Array, len(c.Parts))
	results := map[string]*graph.Array{}
	run := func(p int, pass *pass) {
		local := map[string]*graph.Array{}
		for _, n := range pass.Piece.Graph.Nodes() {
			switch op := n.Op.(type) {
			case graph.Param:
				owned := slices.Contains(c.Parts[p].Params, op.Path) || slices.Contains(c.Parts[p].Mirrors, op.Path)
				require.True(t, owned, "part %d reads %s", p, op.Path)
				local[op.Path] = in[op.Path]
			case graph.Input:
				local[op.Name] = in[op.Name]
			}
		}
		for _, v := range pass.Given {
			require.NotNil(t, known[p][v], "part %d: %v is given", p, v.Node())
			local[valueName(v)] = known[p][v]
		}
		targets := pass.Targets()
		var want []*graph.Value
		for _, target := range targets {
			want = append(want, target.Value)
		}
		got, err := graph.Eval(pass.Piece.Graph, local, want...)
		require.NoError(t, err)
		for i, v := range pass.Made {
			known[p][v] = got[i]
		}
		for i, target := range targets[len(pass.Made):] {
			results[target.Leaf+target.Name] = got[len(pass.Made)+i]
		}
		for _, e := range c.Edges {
			for _, v := range e.Values {
				if e.From == p && slices.Contains(pass.Made, v) {
					known[e.To][v] = known[p][v]
				}
			}
		}
	}
	for p := range c.Parts {
		known[p] = map[*graph.Value]*graph.Array{}
	}
	for p, part := range c.Parts {
		if !merged(p) {
			run(p, part.Forward)
		}
		for v := range known[p] { // what a part does not save is gone
			if !merged(p) && !slices.Contains(part.Saved, v) {
				delete(known[p], v)
			}
		}
	}
	for p, part := range slices.Backward(c.Parts) {
		if part.Backward == nil {
			continue
		}
		if merged(p) {
			run(p, part.Whole)
		} else {
			run(p, part.Backward)
		}
	}
	return results
}

// A cut computes what the whole graph does, number by number, whatever it is cut into.
func TestCutComputesTheWhole(t *testing.T) {
	for name, def := range definitions(t) {
		built, forward, grads := wholeGraph(t, def, 2, 5)
		in := feeds(built.Graph, def.Vocab())
		var want []*graph.Value
		for _, l := range grads {
			want = append(want, l.Value)
		}
		whole, err := graph.Eval(built.Graph, in, append(want, built.LossSum)...)
		require.NoError(t, err)
		for parts := 1; parts <= 4; parts++ {
			for _, recompute := range model.Recomputes {
				for which, merged := range map[string]func(int) bool{
					"last": func(p int) bool { return p == parts-1 }, "none": func(int) bool { return false },
				} {
					t.Run(fmt.Sprintf("%s/%d/recompute=%s/merged=%s", name, parts, recompute, which), func(t *testing.T) {
						again, err := model.Recompute(built, forward, recompute, owners(def, 4, parts))
						require.NoError(t, err)
						wanted := slices.Clone(grads)
						for i, l := range wanted {
							wanted[i].Value = again.Value(l.Value)
						}
						c, err := newCut(again.Graph, forward, owners(def, 4, parts), parts, wanted, []output{{Name: "loss", Value: again.Value(built.LossSum)}})
						require.NoError(t, err)
						got := runCut(t, c, in, merged)
						require.Len(t, got, len(grads)+1)
						for i, l := range grads {
							assert.Equal(t, whole[i].Data, got[l.Leaf].Data, l.Leaf)
						}
						assert.Equal(t, whole[len(grads)].Data, got["loss"].Data)
					})
				}
			}
		}
	}
}

// Layers that lie together exchange one tensor a microbatch each way, and a tied head two more: its gradient goes home, its value comes from there.
func TestCutHandsOnWhatItMust(t *testing.T) {
	def := definitions(t)["gpt2"]
	built, forward, grads := wholeGraph(t, def, 2, 5)
	c, err := newCut(built.Graph, forward, owners(def, 4, 3), 3, grads, []output{{Name: "loss", Value: built.LossSum}})
	require.NoError(t, err)
	var seen []string
	for _, e := range c.Edges {
		for _, v := range e.Values {
			seen = append(seen, fmt.Sprint(e, " ", v.Shape()))
		}
	}
	assert.Equal(t, []string{
		"forward from part 0 to part 1 [10 8]", "forward from part 1 to part 2 [10 8]",
		"backward from part 1 to part 0 [10 8]", "backward from part 2 to part 0 [13 8]", "backward from part 2 to part 1 [10 8]",
	}, seen)
	assert.Equal(t, []string{"wte.weight"}, c.Parts[2].Mirrors)
	assert.Empty(t, c.Parts[0].Mirrors)
	assert.Empty(t, c.Parts[1].Mirrors)
}

// A quantized parameter is no activation: neither is it handed on nor kept for a backward pass, and a cut of units counts what it counts without.
func TestCutMakesQuantizedParametersWhereTheyAreRead(t *testing.T) {
	defs := definitions(t)
	shapes := func(def model.Definition) (edges, saved []string, units []partition.Unit) {
		built, forward, grads := wholeGraph(t, def, 2, 5)
		c, err := newCut(built.Graph, forward, owners(def, 4, 3), 3, grads, []output{{Name: "loss", Value: built.LossSum}})
		require.NoError(t, err)
		for _, e := range c.Edges {
			for _, v := range e.Values {
				edges = append(edges, fmt.Sprint(e, " ", v.Shape()))
			}
		}
		for p, part := range c.Parts {
			saved = append(saved, fmt.Sprint(p, " ", part.Mirrors))
			for _, v := range part.Saved {
				saved = append(saved, fmt.Sprint(p, " ", v.Shape()))
			}
		}
		units, err = partition.Units(built)
		require.NoError(t, err)
		return edges, saved, units
	}
	for _, name := range []string{"gpt2", "llama tied"} {
		edges, saved, units := shapes(defs[name])
		quantizedEdges, quantizedSaved, quantizedUnits := shapes(defs[name+" quantized"])
		assert.Equal(t, edges, quantizedEdges, name)
		assert.Equal(t, saved, quantizedSaved, name)
		assert.Equal(t, units, quantizedUnits, name)
	}
}

// An assignment that goes backwards would make one stage wait for itself.
func TestCutRefusesToGoBackwards(t *testing.T) {
	def := definitions(t)["llama"]
	built, forward, grads := wholeGraph(t, def, 2, 5)
	owner := owners(def, 4, 2)
	owner["model.layers.1.mlp.up_proj.weight"] = 1
	owner["model.layers.1.mlp.down_proj.weight"] = 0
	_, err := newCut(built.Graph, forward, owner, 2, grads, []output{{Name: "loss", Value: built.LossSum}})
	require.ErrorContains(t, err, `parameter "model.layers.1.mlp.down_proj.weight" of part 0 is first read in part 1`)
}
