package kron

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/prng"
)

// Each test here shows what is wrong without a rule, and that it is right with it.

// plain is a configuration without rules and without noise.
func plain(method Method, block int) Config {
	return Config{
		Method: method, BlockSize: block, MaxSizeDense: 1024, PreconditionerLR: 0.7, InitScale: 1, DType: buffers.F32, Damping: 0.1,
	}
}

func newTwin(t *testing.T, c Config, leaves ...Leaf) *Twin {
	p, err := NewPlan(leaves, c)
	require.NoError(t, err)
	twin, err := NewTwin(p, nil)
	require.NoError(t, err)
	return twin
}

// step is update n of a single leaf "w"; the gradient is kept.
func step(t *testing.T, twin *Twin, n int64, g []float64) []float64 {
	u := map[string][]float64{"w": slices.Clone(g)}
	require.NoError(t, twin.Update(n, u, false, false))
	return u["w"]
}

func tensor(t *testing.T, twin *Twin, name string) []float32 {
	for _, h := range twin.Tensors() {
		if h.Path == name {
			return h.Data
		}
	}
	require.Fail(t, "no tensor "+name)
	return nil
}

// draws are n normal values, the same for a seed.
func draws(seed uint64, n int, scale float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = scale * float64(prng.NewKey(seed).Normal(uint64(i)))
	}
	return out
}

func finite(x ...float64) bool {
	return !slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

var methods = []Method{Quad, Skew}

// TestRelativeDampingOfDeadLeaves: a leaf has no gradient for 200 updates, then one.
func TestRelativeDampingOfDeadLeaves(t *testing.T) {
	shapes := map[string][]int{"vector": {6}, "dense": {6, 5}}
	for _, method := range methods {
		for name, shape := range shapes {
			wake := func(noise float64, rules Rules) (first float64, all []float64) {
				c := plain(method, 8)
				c.NoiseScale, c.Rules = noise, rules
				twin := newTwin(t, c, Leaf{Path: "w", Shape: shape})
				zero, spike := make([]float64, array.Elements(shape)), draws(1, array.Elements(shape), 1e-2)
				for n := int64(1); n <= 200; n++ {
					all = append(all, step(t, twin, n, zero)...)
				}
				for n := int64(201); n <= 230; n++ {
					u := step(t, twin, n, spike)
					first = max(first, rootMeanSquare(u))
					all = append(all, u...)
				}
				return first, all
			}
			_, all := wake(0, Rules{})
			assert.False(t, finite(all...), "%s %s: without noise the factors overflow, and infinity times zero is no number", method, name)
			largestUpdate, all := wake(0, Rules{RelativeDamping: true})
			assert.True(t, finite(all...), "%s %s", method, name)
			assert.Less(t, largestUpdate, 3.0, "%s %s: the first updates after it are as large as any", method, name)
			absolute, _ := wake(1e-9, Rules{})
			assert.Greater(t, absolute, 10*largestUpdate, "%s %s: noise of a fixed size lets factors grow until it is white", method, name)
		}
	}
}

// TestRelativeDampingOfDeadRows: one row of a block that is alive has no gradient, like a token that does not occur.
// Its gain, relative to another row's, comes to one over the relative noise. In blocks with a dense factor on that
// side, noise is mixed with the other rows' gradients, which bounds the gain in any case.
func TestRelativeDampingOfDeadRows(t *testing.T) {
	for _, method := range methods {
		for name, maxDense := range map[string]int{"dense": 1024, "diagonal left": 10, "diagonal both": 1} {
			gain := func(rules Rules) float64 {
				c := plain(method, 16)
				c.MaxSizeDense, c.NoiseScale, c.Rules = maxDense, 1e-9, rules
				twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{12, 8}})
				for n := int64(1); n <= 400; n++ {
					g := draws(uint64(n), 12*8, 1e-2)
					clear(g[:8])
					step(t, twin, n, g)
				}
				return answer(t, twin, 0) / answer(t, twin, 1)
			}
			if maxDense < 12 {
				assert.Greater(t, gain(Rules{}), 1e4, "%s %s: the row grows as long as it has no gradient", method, name)
			}
			damped := gain(Rules{RelativeDamping: true})
			assert.Less(t, damped, 20.0, "%s %s: twice one over the damping", method, name)
			assert.Greater(t, damped, 2.0, "%s %s", method, name)
		}
	}
}

// answer is the size of what row r of [12, 8], all ones and alone in its gradient, becomes.
func answer(t *testing.T, twin *Twin, r int) float64 {
	u := map[string][]float64{"w": make([]float64, 12*8)}
	copy(u["w"][r*8:], slices.Repeat([]float64{1}, 8))
	require.NoError(t, twin.Update(401, u, true, false))
	return rootMeanSquare(u["w"])
}

// TestHalvedPairContracts: a constant gradient diag(2, 1) is to be sqrt(2) times the identity.
func TestHalvedPairContracts(t *testing.T) {
	for _, method := range methods {
		for _, maxDense := range []int{1024, 1} { // dense; diagonal on both sides
			c := plain(method, 2)
			c.MaxSizeDense = maxDense
			distance := func(rules Rules) (distance float64) {
				c.Rules = rules
				twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{2, 2}})
				for n := int64(1); n <= 400; n++ {
					u := step(t, twin, n, []float64{2, 0, 0, 1})
					distance = max(math.Abs(u[0]-math.Sqrt2), math.Abs(u[3]-math.Sqrt2))
				}
				return distance
			}
			assert.Greater(t, distance(Rules{}), 0.2, "%s %d: a cycle of two", method, maxDense)
			assert.Less(t, distance(Rules{HalvedPair: true}), 1e-5, "%s %d", method, maxDense)
		}
	}
	// A vector has one factor, which contracts at the full step.
	full, halved := newTwin(t, plain(Quad, 4), Leaf{Path: "w", Shape: []int{3}}), plain(Quad, 4)
	halved.Rules.HalvedPair = true
	for n := int64(1); n <= 5; n++ {
		g := draws(uint64(n), 3, 1)
		assert.Equal(t, step(t, full, n, g), step(t, newTwinAfter(t, halved, n, 3), n, g))
	}
}

// newTwinAfter is a twin of one vector that has seen the draws before update n.
func newTwinAfter(t *testing.T, c Config, n int64, size int) *Twin {
	twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{size}})
	for i := int64(1); i < n; i++ {
		step(t, twin, i, draws(uint64(i), size, 1))
	}
	return twin
}

// TestNoRateFloor: the first step of Skew's diagonal factors is proportional to the rate.
func TestNoRateFloor(t *testing.T) {
	moved := func(rate float64, rules Rules) float64 {
		c := plain(Skew, 4)
		c.PreconditionerLR, c.Rules = rate, rules
		twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{3}})
		step(t, twin, 1, []float64{0.1, 0.2, 0.3})
		return float64(tensor(t, twin, "leaf/w/Ql")[0]) - 1
	}
	stable := Rules{NoRateFloor: true}
	assert.Equal(t, moved(0.4, Rules{}), moved(0.1, Rules{}), "a rate below the floor changes nothing")
	assert.InDelta(t, 0.25, moved(0.1, stable)/moved(0.4, stable), 1e-5)
	assert.Equal(t, 0.4, Config{PreconditionerLR: 0.7}.rate(1e9), "the floor of eformer stays where the rate begins above it")
	assert.Equal(t, 0.4, Config{PreconditionerLR: 0.7, Rules: stable}.rate(1e9))
	assert.InDelta(t, 0.699965, Config{PreconditionerLR: 0.7}.rate(1), 1e-7)
	assert.Equal(t, 0.1, Config{PreconditionerLR: 0.1, Rules: stable}.rate(1e9))
}

// TestIndependentNoise: two leaves outside the dense stack that have the same gradient.
func TestIndependentNoise(t *testing.T) {
	for name, shape := range map[string][]int{"vector": {5}, "left": {12, 3}, "right": {3, 12}, "both": {12, 12}} {
		equal := func(rules Rules) bool {
			c := plain(Quad, 4)
			c.MaxSizeDense, c.NoiseScale, c.Rules = 8, 0.3, rules
			twin := newTwin(t, c, Leaf{Path: "a", Shape: shape}, Leaf{Path: "b", Shape: shape})
			u := map[string][]float64{"a": make([]float64, array.Elements(shape)), "b": make([]float64, array.Elements(shape))}
			require.NoError(t, twin.Update(1, u, false, false))
			return slices.Equal(tensor(t, twin, "leaf/a/Ql"), tensor(t, twin, "leaf/b/Ql"))
		}
		assert.True(t, equal(Rules{}), "%s: one noise for all leaves of a kind", name)
		assert.False(t, equal(Rules{IndependentNoise: true}), name)
	}
	// Blocks of the dense stack have their own in any case.
	c := plain(Quad, 4)
	c.NoiseScale = 0.3
	twin := newTwin(t, c, Leaf{Path: "a", Shape: []int{4, 8}})
	require.NoError(t, twin.Update(1, map[string][]float64{"a": make([]float64, 32)}, false, false))
	q := tensor(t, twin, "dense/Ql")
	assert.NotEqual(t, q[:16], q[16:])
}

// TestStochasticRounding: factors that each update moves by less than half the distance to the next bf16.
func TestStochasticRounding(t *testing.T) {
	const size, updates = 512, 200
	mean := func(dtype buffers.DType, rules Rules) float64 {
		c := plain(Quad, 4)
		c.PreconditionerLR, c.DType, c.Rules = 0.002, dtype, rules
		twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{size}})
		g := slices.Repeat([]float64{0.5}, size)
		g[0] = 1
		for n := int64(1); n <= updates; n++ {
			step(t, twin, n, g)
		}
		sum := 0.0
		for _, q := range tensor(t, twin, "leaf/w/Ql")[1:] {
			sum += float64(q) / (size - 1)
		}
		return sum
	}
	rules := Rules{NoRateFloor: true}
	exact := mean(buffers.F32, rules)
	require.Greater(t, exact, 1.05)
	assert.InDelta(t, 1, mean(buffers.BF16, rules), 1e-12, "every increment is lost")
	rules.StochasticRounding = true
	// One update's rounding has a deviation of at most half of 2^-7. A mean over size after 200 updates has one below
	// 0.0025.
	assert.InDelta(t, exact, mean(buffers.BF16, rules), 5*0.0025)
}

// TestStochasticRoundingKeepsSymmetry: what Quad stores is symmetric to the bit, and bits differ by side, block and update.
func TestStochasticRoundingKeepsSymmetry(t *testing.T) {
	c := plain(Quad, 8)
	c.DType, c.Rules = buffers.BF16, Stable()
	twin := newTwin(t, c, Leaf{Path: "w", Shape: []int{8, 16}})
	for n := int64(1); n <= 3; n++ {
		step(t, twin, n, draws(uint64(n), 128, 1))
	}
	for _, b := range twin.dense {
		assert.Equal(t, transpose(b.left.q, 8, 8), b.left.q)
		assert.Equal(t, transpose(b.right.q, 8, 8), b.right.q)
	}
	// A value half way between two bf16: which way it is rounded is what the bits say.
	pattern := func(block prng.Key, side uint32) (out []float64) {
		for i := range 64 {
			out = append(out, c.round(1+0x1p-8, roundingKey(block, side), i/8, i%8))
		}
		return out
	}
	first := pattern(prng.Key{1, 2}, 0)
	assert.ElementsMatch(t, []float64{1, 1 + 0x1p-7}, slices.Compact(slices.Sorted(slices.Values(first))))
	assert.NotEqual(t, first, pattern(prng.Key{1, 2}, 1))
	assert.NotEqual(t, first, pattern(prng.Key{1, 3}, 0))
	assert.True(t, math.IsInf(c.round(math.Inf(1), prng.Key{}, 0, 0), 1))
}
