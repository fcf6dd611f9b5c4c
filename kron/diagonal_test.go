package kron

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

// pathCases are the paths of this file and leaves for them, of which some are not theirs.
var pathCases = []struct {
	name   string
	make   makePath
	leaves []Leaf
}{
	{"vectors", newVectors, []Leaf{
		{Path: "a.one", Shape: []int{1}},
		{Path: "b.seven", Shape: []int{7}},
		{Path: "c.block", Shape: []int{129}},
		{Path: "d.chunks", Shape: []int{5000}},
		{Path: "e.scanned", Shape: []int{6, 37}, Scanned: true},
		{Path: "f.row", Shape: []int{1, 13}},
		{Path: "g.column", Shape: []int{70, 1}},
		{Path: "h.dense", Shape: []int{3, 5}},
		{Path: "i.scalar"},
		{Path: "j.scanned", Shape: []int{3, 1, 9}, Scanned: true},
		{Path: "k.scalars", Shape: []int{5}, Scanned: true},
		{Path: "l.none", Shape: []int{0}},
		{Path: "m.elsewhere", Shape: []int{9}},
	}},
	{"diagonals", newDiagonals, []Leaf{
		{Path: "a.both", Shape: []int{40, 37}},
		{Path: "b.scanned", Shape: []int{3, 18, 33}, Scanned: true},
		{Path: "c.merged", Shape: []int{5, 4, 23}},
		{Path: "d.wide", Shape: []int{17, 301}},
		{Path: "e.left", Shape: []int{50, 13}},
		{Path: "f.left", Shape: []int{3, 70, 6}, Scanned: true},
		{Path: "g.left", Shape: []int{300, 8}},
		{Path: "h.right", Shape: []int{11, 45}},
		{Path: "i.right", Shape: []int{2, 5, 70}, Scanned: true},
		{Path: "j.right", Shape: []int{4, 2, 2, 23}},
		{Path: "k.right", Shape: []int{3, 17}},
		{Path: "h.dense", Shape: []int{3, 5}},
		{Path: "l.none", Shape: []int{0, 40}},
		{Path: "m.elsewhere", Shape: []int{19, 20}},
	}},
}

// eachPath runs a test for each path and config on each adapter, with a rig of the leaves of its own kind that are not elsewhere: a stage.
func eachPath(t *testing.T, configs map[string]Config, test func(t *testing.T, r *pathRig), options ...gputest.Option) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, c := range pathCases {
			for name, config := range configs {
				t.Run(c.name+" "+name, func(t *testing.T) {
					var here []Leaf
					for _, l := range c.leaves {
						if l.Path != "h.dense" && l.Path != "m.elsewhere" {
							here = append(here, l)
						}
					}
					test(t, newPathRig(t, dev, c.make, config, c.leaves, here))
				})
			}
		}
	}, options...)
}

// configs are both methods, both numerics and both ways of storage.
func configs() map[string]Config {
	out := map[string]Config{}
	for _, method := range []Method{Quad, Skew} {
		for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
			for name, rules := range map[string]Rules{"eformer": {}, "stable": Stable()} {
				out[fmt.Sprintf("%s %s %s", method, dtype, name)] = Config{
					Method: method, BlockSize: 8, MaxSizeDense: 16, PreconditionerLR: 0.7, InitScale: 1, DType: dtype, NoiseScale: 0.3, Damping: 0.2,
					Rules: rules,
				}
			}
		}
	}
	return out
}

// some is a few of the configs.
func some(names ...string) map[string]Config {
	out := map[string]Config{}
	for _, name := range names {
		out[name] = configs()[name]
	}
	return out
}

// followTwin does updates on both sides, the last but one of which reuses its factors, and compares after each.
func followTwin(t *testing.T, r *pathRig, updates int) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range updates {
		got, want := r.update(r.gradients(random), n == updates-2, false)
		if r.plan.Config.DType == buffers.F32 {
			// Some hundred roundings of 2^-24, and draws that are 1e-6 apart.
			near(t, fmt.Sprintf("update %d", n+1), got, want, 1e-5)
			near(t, fmt.Sprintf("state %d", n+1), r.state(), r.twin.Tensors(), 1e-5)
			continue
		}
		// Now and then f32 and f64 fall to different sides of a rounding, 2^-8 apart or less, and what follows is that far off.
		near(t, fmt.Sprintf("update %d", n+1), got, want, 0.05)
		near(t, fmt.Sprintf("state %d", n+1), r.state(), r.twin.Tensors(), 0.05)
		differing, total := differing(r.state(), r.twin.Tensors())
		assert.LessOrEqual(t, differing, 2+total/100*(n+1), "update %d: the same random bits on both sides", n+1)
	}
	r.paddingIsZero()
}

// differing counts elements of Q that are not equal.
func differing(got, want []buffers.Host) (differing, total int) {
	for i, w := range want {
		if w.Path[len(w.Path)-2] != 'Q' {
			continue
		}
		for k, x := range w.Data {
			total++
			if got[i].Data[k] != x {
				differing++
			}
		}
	}
	return differing, total
}

func TestPathsFollowTheTwin(t *testing.T) {
	eachPath(t, configs(), func(t *testing.T, r *pathRig) { followTwin(t, r, 5) })
}

// Small bindings split leaves into several parts, and a small grid is folded.
func TestPathsOfLeavesInParts(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for name, config := range some("quad f32 stable", "skew bf16 stable", "skew f32 eformer") {
			t.Run("vectors "+name, func(t *testing.T) {
				leaves := []Leaf{
					{Path: "a", Shape: []int{20000}},
					{Path: "b", Shape: []int{7, 5003}, Scanned: true}, // three rows in a slab
					{Path: "c", Shape: []int{1, 9001}},
				}
				r := newPathRig(t, dev, newVectors, config, leaves, nil)
				require.Greater(t, len(r.updates.Layout().Slabs()), 3)
				followTwin(t, r, 3)
			})
			t.Run("one side "+name, func(t *testing.T) {
				leaves := []Leaf{
					{Path: "a", Shape: []int{3001, 13}}, // several parts, and strips
					{Path: "b", Shape: []int{15, 3001}}, // four rows in a slab
					{Path: "c", Shape: []int{7, 5003}},  // two rows in a slab
					{Path: "d", Shape: []int{9, 70, 6}, Scanned: true},
				}
				r := newPathRig(t, dev, newDiagonals, config, leaves, nil)
				require.Greater(t, len(r.updates.Layout().Slabs()), 3)
				followTwin(t, r, 3)
			})
			t.Run("diagonals "+name, func(t *testing.T) {
				leaves := []Leaf{
					{Path: "a", Shape: []int{600, 71}},
					{Path: "b", Shape: []int{7, 40, 60}, Scanned: true},
					{Path: "c", Shape: []int{41, 1499}}, // eight rows in a slab, in a wave of its own
				}
				r := newPathRig(t, dev, newDiagonals, config, leaves, nil)
				require.Greater(t, len(r.updates.Layout().Slabs()), 3)
				followTwin(t, r, 3)
			})
		}
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10, Workgroups: 60}))
}

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

// A state that is read, and written to a new one, goes on with the same bits; and so does a second run from the start.
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
				for _, hosts := range [][]buffers.Host{got, r.state()} {
					for _, h := range hosts {
						for k, x := range h.Data {
							require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), "update %d: %s[%d]: %g", r.n, h.Path, k, x)
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

// The dense sides draw with k1 of their blocks, Skew with its two halves.
func TestKeysOfDenseSides(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for name, config := range some("quad f32 eformer", "skew f32 stable") {
			t.Run(name, func(t *testing.T) {
				leaves := []Leaf{{Path: "a", Shape: []int{4, 30}}, {Path: "b", Shape: []int{2, 30, 5}, Scanned: true}}
				r := newPathRig(t, dev, newDiagonals, config, leaves, nil)
				r.update(r.gradients(rand.New(rand.NewPCG(1, 1))), false, false)
				read := func(b *gpu.Buffer) []uint32 {
					raw := make([]byte, b.Bytes())
					require.NoError(t, dev.Read(t.Context(), raw, b.All()))
					var out []uint32
					for ; len(raw) > 0; raw = raw[4:] {
						out = append(out, binary.LittleEndian.Uint32(raw))
					}
					return out
				}
				// The batch of the scanned leaf is the last one.
				one := r.path.(*diagonalPath).one
				var bounds, turns []uint32
				for i := range 2 {
					key := prng.NewKey(44).FoldIn(1)
					if config.Rules.IndependentNoise {
						key = key.FoldIn(1)
					}
					key = key.Split(2)[i].Split(2)[0]
					if config.Method == Skew {
						halves := key.Split(2)
						key, turns = halves[0], append(turns, halves[1][:]...)
					}
					bounds = append(bounds, key[:]...)
				}
				assert.Equal(t, bounds, read(one.scratch.boundKeys))
				if config.Method == Skew {
					assert.Equal(t, turns, read(one.scratch.turnKeys))
				}
			})
		}
	})
}

// The number of dispatches is that of kinds, slabs and shapes, whatever the number of leaves; plans on a dry device are those of a real one.
func TestDispatchesOfManyLeaves(t *testing.T) {
	for name, config := range configs() {
		t.Run(name, func(t *testing.T) {
			dispatches := func(layers int) (vectors, diagonals int) {
				var leaves []Leaf
				for i := range layers {
					for k, shape := range [][]int{{33}, {7}, {40, 37}, {50, 13}, {11, 45}} {
						leaves = append(leaves, Leaf{Path: fmt.Sprintf("%02d.%d", i, k), Shape: shape})
					}
				}
				r := newPathRig(t, gpu.Dry(gpu.Limits{}), newVectors, config, leaves, nil)
				vectors = r.program(false).Dispatches()
				r = newPathRig(t, gpu.Dry(gpu.Limits{}), newDiagonals, config, leaves, nil)
				return vectors, r.program(false).Dispatches()
			}
			v1, d1 := dispatches(1)
			v, d := dispatches(40)
			assert.Equal(t, []int{v1, d1}, []int{v, d})
			want := 4 // T, L, q, u
			if config.Rules.RelativeDamping {
				want += 2
			}
			assert.Equal(t, want, v)
		})
	}
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		for _, c := range pathCases {
			dry := newPathRig(t, gpu.Dry(dev.Limits()), c.make, configs()["skew bf16 stable"], c.leaves, nil)
			there := newPathRig(t, dev, c.make, configs()["skew bf16 stable"], c.leaves, nil)
			assert.Equal(t, there.path.bytes(), dry.path.bytes())
			assert.Equal(t, there.program(false).Dispatches(), dry.program(false).Dispatches())
		}
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
			if product(leaf.Shape) == 0 {
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

// All kinds at once, through the state.
func TestStateOfAllKinds(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		leaves := []Leaf{
			{Path: "a", Shape: []int{13, 7}},
			{Path: "b", Shape: []int{40, 37}},
			{Path: "c", Shape: []int{50, 13}},
			{Path: "d", Shape: []int{11, 45}},
			{Path: "e", Shape: []int{3, 29}, Scanned: true},
			{Path: "f", Shape: []int{2, 9, 5}, Scanned: true},
			{Path: "g"},
		}
		for name, config := range some("quad f32 eformer", "skew f32 stable") {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, dev, config, leaves...)
				kinds := []Kind{Vector, Dense, DiagonalBoth, DiagonalLeft, DiagonalRight}
				for n := int64(1); n <= 4; n++ {
					r.update(n, r.gradientsOf(n, 1), n == 3, 1e-4, "", kinds...)
				}
				raw := r.raw()
				again := newRig(t, dev, config, leaves...)
				again.restore(raw)
				g := r.gradientsOf(5, 1)
				assert.Equal(t, r.run(5, g, false, false), again.run(5, g, false, false))
				assert.Equal(t, r.raw(), again.raw())
			})
		}
	})
}
