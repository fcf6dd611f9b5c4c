package graph

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/nf4"
)

// codes decodes every code of a floating point format of 1 + exponent + mantissa bits that is a number, in the order of the codes without sign.
// With nan the code of ones alone is none.
func codes(exponent, mantissa, bias int, nan bool) []float64 {
	var out []float64
	count := 1 << (exponent + mantissa)
	if nan {
		count--
	}
	for code := range count {
		e, m := code>>mantissa, float64(code&(1<<mantissa-1))/float64(int(1)<<mantissa)
		if e == 0 {
			out = append(out, m*math.Pow(2, float64(1-bias)))
		} else {
			out = append(out, (1+m)*math.Pow(2, float64(e-bias)))
		}
	}
	return out
}

// nearest is the entry of a table of magnitudes that is nearest to x, with its sign; of two, the one of the even code.
func nearest(table []float64, x float64) float64 {
	best := 0
	for i, v := range table {
		d, least := math.Abs(v-math.Abs(x)), math.Abs(table[best]-math.Abs(x))
		if d < least || d == least && i%2 == 0 {
			best = i
		}
	}
	return math.Copysign(table[best], x)
}

// magnitude is the largest of a group.
func magnitude(x []float64) float64 {
	return math.Max(slices.Max(x), -slices.Min(x))
}

// byTable are the modes once more, by the tables of their numbers: what a group with the largest magnitude of all groups becomes.
func byTable(mode string, x []float64, whole float64) []float64 {
	small, large := codes(2, 1, 1, false), codes(4, 3, 7, true)
	y := make([]float64, len(x))
	top := magnitude(x)
	if top == 0 {
		return y
	}
	power := math.Pow(2, math.Floor(math.Log2(top)))
	for i, v := range x {
		switch mode {
		case "mxfp4":
			y[i] = power / 4 * nearest(small, v/(power/4))
		case "mxfp8":
			y[i] = power / 256 * nearest(large, v/(power/256))
		case "nvfp4":
			t := whole / (6 * 448)
			if s := t * nearest(large, 448*(top/whole)); s > 0 {
				y[i] = s * nearest(small, v/s)
			}
		case "nf4":
			levels := normalLevels()
			best := 0
			for j, level := range levels {
				if math.Abs(v/top-level) < math.Abs(v/top-levels[best]) {
					best = j
				}
			}
			y[i] = top * levels[best]
		}
	}
	return y
}

// normalLevels are those of nf4 as the paper makes them: quantiles of a normal distribution, seven below 0 and eight above, over the outermost.
func normalLevels() []float64 {
	quantile := func(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
	const outermost = 0.9677083
	out := []float64{0}
	for i := range 8 {
		out = append(out, quantile(outermost+(0.5-outermost)*float64(i)/8))
	}
	for i := range 7 {
		out = append(out, -quantile(outermost+(0.5-outermost)*float64(i)/7))
	}
	slices.Sort(out)
	for i := range out {
		out[i] /= quantile(outermost)
	}
	return out
}

// quantized is Eval of x [.., width].
func quantized(t testing.TB, o Quantize, x []float64, width int) []float64 {
	t.Helper()
	g := New()
	y := g.Quantize(g.Input("x", F32(len(x)/width, width)), o)
	got, err := Eval(g, map[string]*Array{"x": {Shape: []int{len(x) / width, width}, Data: x}}, y)
	require.NoError(t, err)
	return got[0].Data
}

func normals(rng *rand.Rand, n int, std float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(rng.NormFloat64() * std))
	}
	return x
}

func TestTablesOfSmallFloats(t *testing.T) {
	assert.Equal(t, []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}, codes(2, 1, 1, false))
	large, e4m3 := codes(4, 3, 7, true), Quantize{Mode: "mxfp8"}.Format().Float
	assert.Len(t, large, 127)
	assert.Equal(t, []float64{0, math.Pow(2, -9), 448}, []float64{large[0], large[1], large[126]})
	for i, v := range large {
		assert.Equal(t, v, e4m3.Near(v))
		if i > 0 { // half way, of two the even one
			middle := (large[i-1] + v) / 2
			assert.Equal(t, large[i-i%2], e4m3.Near(middle), middle)
			assert.Equal(t, -v, e4m3.Near(-math.Nextafter(middle, v)))
		}
	}
	assert.Equal(t, 448.0, e4m3.Near(1e9))
}

func TestLevelsOfNF4AreNormalQuantiles(t *testing.T) {
	for i, level := range normalLevels() {
		assert.InDelta(t, level, float64(nf4.Levels[i]), 1e-6) // the published ones, in single precision
	}
}

// TestQuantizeAgainstTables holds the formats of few numbers against lists of all their numbers.
func TestQuantizeAgainstTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, mode := range []string{"nf4", "mxfp4", "mxfp8", "nvfp4"} {
		o := Quantize{Mode: mode}.Or()
		for _, std := range []float64{1e-9, 0.02, 3, 1e12} {
			const width = 150 // several groups and a piece
			x := normals(rng, 4*width, std)
			clear(x[width : width+o.Group])
			x[2*width] *= 1e4 // blocks next to a large one
			got := quantized(t, o, x, width)
			for r := range 4 {
				for at := 0; at < width; at += o.Group {
					from, to := r*width+at, r*width+min(at+o.Group, width)
					for i, want := range byTable(mode, x[from:to], magnitude(x)) {
						assert.InDelta(t, want, got[from+i], 2e-7*magnitude(x[from:to]), "%s row %d element %d of %g", mode, r, at+i, x[from+i])
					}
				}
			}
		}
	}
}

// TestAffineTakesTheNearestOfEvenLevels: both ends of a group are levels, all levels are a step apart, and no element is more than half a
// step away from its own.
func TestAffineTakesTheNearestOfEvenLevels(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for bits := 2; bits <= 8; bits++ {
		for _, group := range []int{2, 32, 64, 100} {
			x := normals(rng, 150, 0.02)
			got := quantized(t, Quantize{Mode: "affine", Bits: bits, Group: group}, x, 150)
			for from := 0; from < 150; from += group {
				to := min(from+group, 150)
				lo, hi := slices.Min(x[from:to]), slices.Max(x[from:to])
				step := (hi - lo) / (math.Pow(2, float64(bits)) - 1)
				for i := from; i < to; i++ {
					assert.LessOrEqual(t, math.Abs(got[i]-x[i]), step/2*(1+1e-9), "%d bits", bits)
					level := (got[i] - lo) / step
					assert.InDelta(t, math.Round(level), level, 1e-9)
					assert.True(t, level > -0.1 && level < math.Pow(2, float64(bits))-0.9)
				}
				assert.InDelta(t, lo, slices.Min(got[from:to]), 1e-15)
				assert.InDelta(t, hi, slices.Max(got[from:to]), 1e-15)
			}
		}
	}
}

// TestQuantizeProperties: what is quantized already stays, order stays within a group, and 0 added to a last group changes nothing where a
// format has a 0.
func TestQuantizeProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, mode := range QuantizeModes {
		o := Quantize{Mode: mode}.Or()
		const width = 72
		x := normals(rng, 3*width, 0.02)
		once := quantized(t, o, x, width)
		twice := quantized(t, o, once, width)
		changed := 0
		for i := range x {
			assert.InDelta(t, once[i], twice[i], 1e-15, "%s: twice", mode)
			if once[i] != x[i] {
				changed++
			}
		}
		assert.Greater(t, changed, width, mode)

		group := slices.Clone(x[:o.Group])
		slices.Sort(group)
		assert.True(t, slices.IsSorted(quantized(t, o, group, len(group))), "%s keeps order", mode)

		if mode != "affine" {
			piece := x[:o.Group-3]
			padded := append(slices.Clone(piece), 0, 0, 0)
			assert.Equal(t, quantized(t, o, piece, len(piece)), quantized(t, o, padded, len(padded))[:len(piece)], "%s: zeros behind", mode)
		}
		for _, same := range []float64{0, 0.25, 1e-35} {
			group := slices.Repeat([]float64{same}, o.Group)
			for _, v := range quantized(t, o, group, o.Group) {
				within := 1e-30
				if o.Format().OfGGUF() {
					within += same * 0x1p-11 // scales in f16
				}
				assert.InDelta(t, same, v, within, "%s of equal numbers", mode)
			}
		}
	}
}

// TestQuantizeIsStraightThrough: the gradient of a loss is that at the quantized numbers, given to the parameter as it is.
func TestQuantizeIsStraightThrough(t *testing.T) {
	for _, mode := range QuantizeModes {
		p := newProblem()
		w := p.Param("w", 3, 40)
		feed := &Array{Shape: []int{3, 40}, Data: normals(p.random, 120, 0.02)}
		p.feeds["w"] = feed
		y := p.Quantize(w, Quantize{Mode: mode}.Or())
		weight := p.fixed(p.random.NormFloat64, 3, 40)
		loss := p.Sum(p.Mul(weight, p.Apply("square", y)))
		grads, err := Gradients(p.Graph, loss, []*Value{w})
		require.NoError(t, err)
		got, err := Eval(p.Graph, p.feeds, grads[0], y, weight)
		require.NoError(t, err)
		for i, g := range got[0].Data {
			assert.InDelta(t, 2*got[2].Data[i]*got[1].Data[i], g, 1e-12, mode)
		}
	}
}

func TestQuantizeErrors(t *testing.T) {
	for _, c := range []struct {
		op    Quantize
		shape []int
		want  string
	}{
		{Quantize{Mode: "afine", Group: 64}, []int{4}, `graph: quantize #1: mode "afine", want one of affine, nf4, mxfp4, mxfp8, nvfp4, q8_0, q4_0, f16, did you mean "affine"?`},
		{Quantize{Mode: "affine", Bits: 1, Group: 64}, []int{4}, "bits 1, want 2 to 8"},
		{Quantize{Mode: "affine", Bits: 9, Group: 64}, []int{4}, "bits 9, want 2 to 8"},
		{Quantize{Mode: "nf4", Bits: 4, Group: 64}, []int{4}, "bits 4, want 0: nf4 has a width of its own"},
		{Quantize{Mode: "mxfp4", Group: 16}, []int{4}, "group 16, want 32, which belongs to mxfp4"},
		{Quantize{Mode: "q8_0", Group: 64}, []int{4}, "group 64, want 32, which belongs to q8_0"},
		{Quantize{Mode: "nf4", Group: 64, Down: true}, []int{4, 4}, "mode nf4 down a matrix, want one of GGUF files"},
		{Quantize{Mode: "q4_0", Group: 32, Down: true}, []int{4}, "x has shape [4], want a matrix"},
		{Quantize{Mode: "affine", Bits: 4, Group: 1}, []int{4}, "group 1, want 2 or more"},
		{Quantize{Mode: "nf4", Group: 64}, nil, "1 dimensions or more"},
	} {
		g := New()
		g.Quantize(g.Input("x", F32(c.shape...)), c.op)
		assert.ErrorContains(t, g.Err(), c.want)
	}
}
