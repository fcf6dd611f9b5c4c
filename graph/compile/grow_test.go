package compile

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
)

// Twice the layers take twice the work: forward products whose results the backward pass reads are far from their readers, and all that is kept between
// the passes lives at once.
func TestPlanningGrowsWithTheLayers(t *testing.T) {
	visits := func(layers int) int {
		c := deep(t, layers)
		require.NoError(t, c.run())
		return c.visits
	}
	few, many := visits(150), visits(300)
	t.Log(few, many)
	assert.Less(t, float64(many), 2.2*float64(few))
}

// deep is about to compile the step of a network of so many layers, for a GPU.
func deep(t *testing.T, layers int) *Compiler {
	t.Helper()
	g := graph.New()
	x := g.Input("x", graph.F32(64, 32))
	var params []*graph.Value
	var targets []Target
	param := func(layer int, name string, shape ...int) *graph.Value {
		path := fmt.Sprintf("h.%d.%s", layer, name)
		p := g.Param(path, shape...)
		params, targets = append(params, p), append(targets, Target{Leaf: path})
		return p
	}
	for i := range layers {
		up := g.MatMul(x, param(i, "up", 32, 128), false, false)
		down := g.MatMul(g.Apply("gelu_tanh", g.Add(up, param(i, "bias", 128))), param(i, "down", 128, 32), false, false)
		x = g.Add(x, down)
	}
	grads, err := graph.Gradients(g, g.Sum(g.Mul(x, x)), params)
	require.NoError(t, err)
	for i, v := range grads {
		targets[i].Value = v
	}
	c, err := newCompiler(g, targets, gpu.DefaultLimits())
	require.NoError(t, err)
	c.grads, err = leafLayout(c.live, targets, c.limits)
	require.NoError(t, err)
	c.params = []*buffers.Layout{c.grads}
	return c
}

// enough is a context that ends when it has been looked at so many times.
type enough struct {
	context.Context
	left, after int // looks before and after its end
}

func (e *enough) Err() error {
	if e.left > 0 {
		e.left--
		return nil
	}
	e.after++
	return context.Canceled
}

// Whatever a compilation is at, it looks at its context again and again, and once that has ended it does no more.
func TestCompilationEndsWithItsContext(t *testing.T) {
	looks := func(layers int) int {
		c, all := deep(t, layers), &enough{t.Context(), 1 << 30, 0}
		c.ctx = all
		require.NoError(t, c.run())
		return 1<<30 - all.left
	}
	few := looks(4)
	assert.Greater(t, looks(8)-few, 4*10, "more than once a unit of each layer")
	for at := range few {
		c, ended := deep(t, 4), &enough{t.Context(), at, 0}
		c.ctx = ended
		require.ErrorIs(t, c.run(), context.Canceled)
		require.LessOrEqual(t, ended.after, 1, "ended at look %d", at)
	}
}
