package prng

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The vectors of Random123 for threefry-2x32-20, which JAX's own tests use too.
func TestHashKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		key     Key
		in, out [2]uint32
	}{
		{Key{0, 0}, [2]uint32{0, 0}, [2]uint32{0x6b200159, 0x99ba4efe}},
		{Key{math.MaxUint32, math.MaxUint32}, [2]uint32{math.MaxUint32, math.MaxUint32}, [2]uint32{0x1cb996fc, 0xbb002be7}},
		{Key{0x13198a2e, 0x03707344}, [2]uint32{0x243f6a88, 0x85a308d3}, [2]uint32{0xc4923a9c, 0x483df7a0}},
	} {
		y0, y1 := c.key.Hash(c.in[0], c.in[1])
		assert.Equal(t, c.out, [2]uint32{y0, y1})
	}
}

func TestKeyDerivation(t *testing.T) {
	assert.Equal(t, []Key{{1832780943, 270669613}, {64467757, 2916123636}, {2465931498, 255383827}}, NewKey(42).Split(3))
	assert.Equal(t, NewKey(7), NewKey(1<<32+7), "only the low 32 bits of a seed count")
	assert.Equal(t, Key{0, math.MaxUint32}, NewKey(math.MaxUint32))
	for seed, want := range map[uint64][2]Key{
		42: {{0x03d7b32d, 0xadd083f4}, {0xbdfb82f1, 0x07b3b635}},
		43: {{0x1867c7aa, 0x891f2826}, {0x63e3b862, 0x64c282d2}},
		44: {{0x7f3dd50c, 0x86a5bb28}, {0x9b44b39c, 0x08b7424d}},
		45: {{0xefe716bb, 0xbad2850e}, {0x53c3e07f, 0x63712df9}},
		46: {{0x04e3f3b2, 0x1ce34f2b}, {0xf66ca3da, 0xe2503a1d}},
	} {
		folded := NewKey(seed).FoldIn(1)
		assert.Equal(t, want[0], folded)
		assert.Equal(t, want[1], folded.Split(1)[0])
	}
	// White Kron's dense block 0 at step 1, and the skew halves.
	block := NewKey(42).FoldIn(1).Split(1)[0].Split(2)
	assert.Equal(t, []Key{{2879702197, 2447134213}, {98910778, 3934144064}}, block)
	sides := block[0].Split(2)
	assert.Equal(t, []Key{{1411449972, 1157375159}, {1596780495, 579491684}}, sides)
	assert.Equal(t, []Key{{4234348152, 1875591484}, {1753523667, 1837630953}}, sides[0].Split(2))
	assert.Equal(t, []Key{{2946120281, 3712330899}, {218222295, 893481268}}, sides[1].Split(2))
	assert.Equal(t, block[1], NewKey(42).FoldIn(1).FoldIn(0).FoldIn(1), "split is fold_in of the index")
}

// TestNormalPublished has the values that JAX prints with eight digits.
func TestNormalPublished(t *testing.T) {
	near := func(want []float32, draw func(uint64) float32) {
		t.Helper()
		for i, w := range want {
			assert.InDelta(t, w, draw(uint64(i)), 3e-7*max(1, math.Abs(float64(w))))
		}
	}
	near([]float32{-.028304616, .46713185, .29570296}, NewKey(42).Normal)
	near([]float32{1.6226422, 2.0252647, -.43359444, -.07861735, .1760909, -.97208923, -.49529874, .4943786}, NewKey(0).Normal)
	near([]float32{.947667, .9785799, .33229148}, NewKey(0).Uniform)
}

// TestNormalNoise has the first draws of white Kron's noise, f32 and bf16.
func TestNormalNoise(t *testing.T) {
	noise := NewKey(42).FoldIn(1).Split(1)[0].Split(2)[1]
	for i, w := range []float32{.49482942, .02000248, .59123403, -.51764178} {
		assert.InDelta(t, w, noise.Normal(uint64(i)), 2e-7)
	}
	for i, w := range []float32{-1.3515625, .703125, 2.015625, -.66796875, 2.515625, -.29296875, -1.734375, -1.1015625} {
		assert.Equal(t, w, noise.NormalBF16(uint64(i)))
	}
}

// The case that the doctor draws from allows a bf16 beside; here is none.
func TestTableOfBF16(t *testing.T) {
	text, err := os.ReadFile("../../cmd/gputrain/doctor/cases/prng/case.json")
	require.NoError(t, err)
	var c struct {
		Table []float32 `json:"bf16_table"`
	}
	require.NoError(t, json.Unmarshal(text, &c))
	assert.Equal(t, normalBF16[:], c.Table)
}

// TestErfinvAgainstFloat64 bounds the whole approximation; Giles gives about 2e-7 relative up to |x| = 1-2^-24.
func TestErfinvAgainstFloat64(t *testing.T) {
	check := func(bits uint32) {
		u := 2*float64(uniform(bits)) - 1 + 0x1p-24
		want := math.Sqrt2 * math.Erfinv(u)
		got := float64(normal(bits))
		// In the tail 1-u*u is computed from the rounded square, as XLA does: its relative error is 2^-25/(1-u^2).
		tol := 8e-7*math.Abs(want) + 1e-9 + 0x1p-25/(1-u*u)/math.Max(1, math.Abs(want))
		require.True(t, math.Abs(got-want) <= tol, "bits %08x: %v, want %v within %v", bits, got, want, tol)
	}
	for bits := uint64(0); bits <= math.MaxUint32; bits += 1 << 9 * 61 {
		check(uint32(bits))
	}
	for _, bits := range []uint32{0, 1 << 9, 2 << 9, 0x7fffffff, 0x80000000, math.MaxUint32, math.MaxUint32 - 1<<9} {
		check(bits)
	}
}

func TestMomentsOfDraws(t *testing.T) {
	const n = 1 << 18
	key := NewKey(1)
	var mean, square, uniformMean float64
	for i := range uint64(n) {
		z := float64(key.Normal(i))
		mean += z / n
		square += z * z / n
		u := key.Uniform(i)
		require.True(t, u >= 0 && u < 1)
		uniformMean += float64(u) / n
	}
	// Five standard errors: 1/sqrt(n), sqrt(2/n), 1/sqrt(12 n).
	assert.InDelta(t, 0, mean, 5/math.Sqrt(n))
	assert.InDelta(t, 1, square, 5*math.Sqrt(2.0/n))
	assert.InDelta(t, 0.5, uniformMean, 5/math.Sqrt(12*n))
}

// TestHighIndex reaches past 2^32 elements, where the counter's upper word counts.
func TestHighIndex(t *testing.T) {
	key := NewKey(3)
	y0, y1 := key.Hash(2, 5)
	assert.Equal(t, y0^y1, key.Bits32(2<<32+5))
	assert.NotEqual(t, key.Bits32(5), key.Bits32(1<<32+5))
}

func BenchmarkNormal(b *testing.B) {
	key := NewKey(0)
	i, sum := uint64(0), float32(0)
	for b.Loop() {
		sum += key.Normal(i)
		i++
	}
	_ = sum
}
