package kron

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
)

// A set flag, as of a gradient that is not finite, and an update that reuses factors leave every bit of the state.
func TestPathsKeepTheirState(t *testing.T) {
	eachPath(t, some("quad f32 eformer", "skew bf16 stable"), func(t *testing.T, r *pathRig) {
		random := rand.New(rand.NewPCG(3, 4))
		r.update(r.gradients(random), false, false)
		before := r.raw()
		broken := r.gradients(random)
		for _, h := range broken {
			for k := range h.Data {
				h.Data[k] = float32(math.NaN())
			}
		}
		r.update(broken, false, true)
		assert.Equal(t, before, r.raw(), "flag")
		got, want := r.update(r.gradients(random), false, false)
		near(t, "after the flag", got, want, 0.02) // as nothing of it is left in any scratch
		near(t, "after the flag", r.state(), r.twin.Tensors(), 0.02)
		before = r.raw()
		r.update(r.gradients(random), true, false)
		assert.Equal(t, before, r.raw(), "reuse")
		r.update(r.gradients(random), false, false)
		assert.NotEqual(t, before, r.raw())
	})
}

// A state that is read, and written to a new one, resumes with the same bits; and so does a second run from the start.
func TestPathsAreRestored(t *testing.T) {
	eachPath(t, some("quad f32 stable", "skew bf16 stable", "quad bf16 eformer"), func(t *testing.T, r *pathRig) {
		again := newPathRig(t, r.dev, r.make, r.plan.Config, r.whole, r.leaves)
		one, two := rand.New(rand.NewPCG(5, 6)), rand.New(rand.NewPCG(5, 6))
		for range 2 {
			r.update(r.gradients(one), false, false)
			again.update(again.gradients(two), false, false)
		}
		assert.Equal(t, r.raw(), again.raw(), "two runs")
		assert.Equal(t, r.images(), again.images(), "two runs")

		restored := newPathRig(t, r.dev, r.make, r.plan.Config, r.whole, r.leaves)
		restored.write(r.raw())
		restored.n = r.n
		grads := r.gradients(one)
		r.update(grads, false, false)
		restored.update(grads, false, false)
		assert.Equal(t, r.raw(), restored.raw())
		assert.Equal(t, r.images(), restored.images())
		for _, tensor := range r.path.tensors() {
			assert.ErrorContains(t, tensor.Write(make([]byte, 3)), tensor.Name)
		}
	})
}

// Before update 100 both factors of a block get one magnitude, which vectors have no use for.
func TestPathsBalance(t *testing.T) {
	eachPath(t, some("quad f32 eformer", "skew f32 stable", "quad bf16 stable"), func(t *testing.T, r *pathRig) {
		r.n = 97 // so that the third of these is update 100
		followTwin(t, r, 5)
		r.n = 99
		before := r.raw()
		r.update(r.gradients(rand.New(rand.NewPCG(1, 1))), false, true)
		assert.Equal(t, before, r.raw(), "flag")
	})
}

// Blocks without a gradient are left alone where noise is relative; their running RMS falls.
func TestPathsLeaveDeadBlocks(t *testing.T) {
	eachPath(t, some("quad f32 stable", "skew bf16 stable"), func(t *testing.T, r *pathRig) {
		random := rand.New(rand.NewPCG(7, 8))
		alive, dead := r.gradients(random), r.gradients(random)
		for _, h := range dead {
			clear(h.Data)
		}
		start := r.raw()
		r.update(dead, false, false)
		assert.Equal(t, start, r.raw(), "nothing has had a gradient yet")
		r.update(alive, false, false)
		before := r.state()
		for i, h := range dead {
			if i%2 == 1 && len(h.Data) > 0 {
				h.Data[0] = 1e-17 // next to nothing
			}
		}
		r.update(dead, false, false)
		for i, after := range r.state() {
			if len(after.Path) > 4 && after.Path[len(after.Path)-4:] == "/rms" {
				for k, x := range after.Data {
					assert.InEpsilon(t, 0.999*before[i].Data[k], x, 1e-6)
				}
				continue
			}
			assert.Equal(t, before[i], after)
		}
	})
}

// Without noise the factor of a parameter that never has a gradient grows by 1.8 in each update, and leaves the range of f32.
func TestFactorsStayFinite(t *testing.T) {
	config := configs()["quad f32 eformer"]
	config.NoiseScale, config.InitScale = 0, 1e16
	eachPath(t, map[string]Config{"no noise": config}, func(t *testing.T, r *pathRig) {
		grads := r.gradients(rand.New(rand.NewPCG(9, 10)))
		alive := grads[0].Data[0]
		for _, h := range grads {
			clear(h.Data)
		}
		run := func(updates int) {
			for range updates {
				got, _ := r.update(grads, false, false)
				if r.n%30 == 0 || r.n > 90 {
					got = append(got, r.state()...)
				}
				for _, h := range got {
					for k, x := range h.Data {
						if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
							require.Failf(t, "not finite", "update %d: %s[%d]: %g", r.n, h.Path, k, x)
						}
					}
				}
			}
		}
		run(90)
		grads[0].Data[0] = alive
		run(3)
	})
}

// A leaf gives the same bits alone and among others, of which some share its dispatches.
func TestPathsOfStages(t *testing.T) {
	eachPath(t, some("quad f32 stable", "skew bf16 stable"), func(t *testing.T, r *pathRig) {
		random := rand.New(rand.NewPCG(11, 12))
		var grads [][]buffers.Host
		for range 2 {
			grads = append(grads, r.gradients(random))
		}
		outputs := map[string][]float32{}
		for _, g := range grads {
			got, _ := r.update(g, false, false)
			for _, h := range got {
				outputs[h.Path] = h.Data
			}
		}
		whole := r.raw()
		for i, leaf := range r.leaves {
			if array.Elements(leaf.Shape) == 0 {
				continue
			}
			alone := newPathRig(t, r.dev, r.make, r.plan.Config, r.whole, r.leaves[i:i+1])
			var got []buffers.Host
			for _, g := range grads {
				got, _ = alone.update(g[i:i+1], false, false)
			}
			assert.Equal(t, outputs[leaf.Path], got[0].Data, leaf.Path)
			for name, raw := range alone.raw() {
				assert.Equal(t, whole[name], raw, name)
			}
		}
	})
}
