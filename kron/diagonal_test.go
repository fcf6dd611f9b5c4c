package kron

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
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

// Each rule alone, and no noise, on blocks of ordinary size.
func TestPathsOfEachRule(t *testing.T) {
	dev := gputest.Device(t)
	configs := map[string]Config{}
	for name, rules := range map[string]Rules{
		"none": {}, "aligned": {AlignedBound: true}, "floor": {NoRateFloor: true}, "pair": {HalvedPair: true},
		"damping": {RelativeDamping: true}, "independent": {IndependentNoise: true}, "rounding": {StochasticRounding: true},
	} {
		configs[name] = Config{
			Method: Quad, BlockSize: 64, MaxSizeDense: 64, PreconditionerLR: 0.3, InitScale: 0.5, DType: buffers.F32, NoiseScale: 0.3, Damping: 0.2,
			Rules: rules,
		}
	}
	silent, rounding := configs["none"], configs["rounding"]
	silent.NoiseScale, silent.Method, rounding.DType = 0, Skew, buffers.BF16
	configs["silent"], configs["rounding"] = silent, rounding
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			vectors := []Leaf{{Path: "a", Shape: []int{200}}, {Path: "b", Shape: []int{2, 70}, Scanned: true}}
			followTwin(t, newPathRig(t, dev, newVectors, config, vectors, nil), 3)
			matrices := []Leaf{{Path: "a", Shape: []int{90, 33}}, {Path: "b", Shape: []int{70, 65}}, {Path: "c", Shape: []int{60, 3, 50}}}
			followTwin(t, newPathRig(t, dev, newDiagonals, config, matrices, nil), 3)
		})
	}
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
