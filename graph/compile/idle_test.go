package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
)

// nearestOf is what idleTimes finds, by a look at all tenants: the buffer whose nearest tenant is nearest, -1 where none is free.
func nearestOf(st *storage, buffers [][]*storage) int {
	best, least := -1, 0
	for b, tenants := range buffers {
		near, free := int(^uint(0)>>1), true
		for _, t := range tenants {
			switch {
			case t.last < st.first:
				near = min(near, st.first-t.last)
			case st.last < t.first:
				near = min(near, t.first-st.last)
			default:
				free = false
			}
		}
		if free && (best < 0 || near < least) {
			best, least = b, near
		}
	}
	return best
}

func TestStoragesGoWhereTheLeastTimeIsIdle(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	reused := 0
	for range 300 {
		commands := 1 + random.IntN(40)
		var storages []*storage
		for range 1 + random.IntN(120) {
			first := random.IntN(commands)
			storages = append(storages, &storage{bytes: 16, first: first, last: first + random.IntN(min(1+random.IntN(12), commands-first))})
		}
		sizes := assign(storages, true, new(int))
		buffers := make([][]*storage, 0, len(sizes))
		for _, st := range storages { // of one size: placed in this order
			want := nearestOf(st, buffers)
			if want < 0 {
				want, buffers = len(buffers), append(buffers, nil)
			} else {
				reused++
			}
			require.Equal(t, want, st.buffer)
			buffers[want] = append(buffers[want], st)
		}
		require.Len(t, sizes, len(buffers))
	}
	assert.Greater(t, reused, 1000)
}

// Twice the layers take twice the work: forward products whose results the backward pass reads are far from their readers, and all that is kept between
// the passes lives at once.
func TestPlanningGrowsWithTheLayers(t *testing.T) {
	visits := func(layers int) int {
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
		require.NoError(t, c.run())
		return c.visits
	}
	few, many := visits(150), visits(300)
	t.Log(few, many)
	assert.Less(t, float64(many), 2.2*float64(few))
}
