package compile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// TestQuantizeOnDevice holds every mode against Eval at widths around a group, and the gradient of a quantized parameter.
func TestQuantizeOnDevice(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, mode := range graph.QuantizeModes {
			for _, shape := range [][]int{{1}, {64}, {3, 63}, {5, 65}, {2, 3, 130}, {300, 32}} {
				t.Run(fmt.Sprint(mode, shape), func(t *testing.T) {
					g := graph.New()
					p := g.Param("h.0.w", shape...)
					op := graph.Quantize{Mode: mode}.Or()
					op.Down = op.Format().OfGGUF() && len(shape) == 2 && shape[0] > 4
					y := g.Quantize(p, op)
					grads, err := graph.Gradients(g, g.Sum(g.Mul(y, g.Input("weight", graph.F32(shape...)))), []*graph.Value{p})
					require.NoError(t, err)
					w := &twin{graph: g, values: []*graph.Value{y}, leaves: map[string]*graph.Value{"h.0.w": grads[0]}}
					w.feed(rand.New(rand.NewPCG(3, 4)))
					w.check(t, d, 4*eps) // s, 1/s, two products and a sum
				})
			}
		}
	})
}

// magnitudes are the first numbers of a floating point format, ascending from 0: bits of mantissa, the exponent of its smallest normal numbers.
func magnitudes(mantissa, least, count int) []float64 {
	out := make([]float64, count)
	for i := range out {
		m, e := i&(1<<mantissa-1), i>>mantissa
		if e > 0 {
			m, e = m|1<<mantissa, e-1
		}
		out[i] = math.Ldexp(float64(m), least+e-mantissa)
	}
	return out
}

// TestQuantizeOnDeviceToTheBit: formats with scales that are powers of two have no rounding but their own, and numbers half way between two
// go to the same.
func TestQuantizeOnDeviceToTheBit(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for mode, table := range map[string][]float64{"mxfp4": magnitudes(1, 0, 8), "mxfp8": magnitudes(3, -6, 127)} {
			var x []float64 // groups of 32, each with the largest number in front and a scale of its own
			for i := 0; i < 4*31; i++ {
				if i%31 == 0 {
					x = append(x, table[len(table)-1])
				}
				at := 1 + i%(len(table)-1)
				x = append(x, math.Copysign((table[at-1]+table[at])/2, float64(i%3)-1))
			}
			for i := range x {
				x[i] *= math.Pow(2, float64(20*(i/32)-60))
			}
			g := graph.New()
			w := &twin{graph: g, feeds: map[string]*graph.Array{"x": {Shape: []int{2, 64}, Data: x}}}
			w.values = []*graph.Value{g.Quantize(g.Input("x", graph.F32(2, 64)), graph.Quantize{Mode: mode}.Or())}
			got, _ := w.run(t, d)
			want, err := graph.Eval(g, w.feeds, w.values...)
			require.NoError(t, err)
			assert.Equal(t, want[0].Data, got["v0"], mode)
		}
	})
}

// TestBlocksOnDeviceToTheBit: what a GGUF file holds is computed with the roundings of a processor, also where a quotient lies at the edge of two codes, and for
// numbers of every size that f16 has a scale for.
func TestBlocksOnDeviceToTheBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, op := range []graph.Quantize{{Mode: "q4_0"}, {Mode: "q8_0"}, {Mode: "q4_0", Down: true}, {Mode: "q8_0", Down: true}, {Mode: "f16"}} {
			const rows, columns = 512, 64
			x := make([]float64, rows*columns)
			size, most := float32(0), cmp.Or(math.Abs(op.Or().Format().Over), 2048)
			for i := range x {
				at := i
				if op.Down {
					at = i%rows*columns + i/rows
				}
				switch i % 32 {
				case 0: // the largest
					size = float32(math.Ldexp(1+rng.Float64(), i/32%40-26) * (1 - 2*float64(rng.IntN(2))))
					x[at] = float64(size)
				case 1:
					x[at] = float64(-size)
				default: // near an edge of two codes
					v := size / float32(most) * (float32(rng.IntN(int(4*most))-int(2*most)) / 2)
					x[at] = float64(math.Nextafter32(v, v+float32(rng.IntN(3)-1)))
				}
			}
			g := graph.New()
			w := &twin{graph: g, feeds: map[string]*graph.Array{"x": {Shape: []int{rows, columns}, Data: x}}}
			w.values = []*graph.Value{g.Quantize(g.Input("x", graph.F32(rows, columns)), op.Or())}
			got, _ := w.run(t, d)
			want, err := graph.Eval(g, w.feeds, w.values...)
			require.NoError(t, err)
			assert.Equal(t, want[0].Data, got["v0"], op)
		}
	})
}

// TestQuantizeChecksAreFarFromTies: where an element of a check lay half way between two numbers of a format, a device that divides a little
// differently would be a whole step away, and be right. For blocks of GGUF files no device divides.
func TestQuantizeChecksAreFarFromTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, mode := range graph.QuantizeModes {
		for _, k := range quantizeChecks() {
			if op := (graph.Quantize{Mode: mode}).Or(); k.Name != "quantize "+mode || op.Format().OfGGUF() {
				continue
			}
			g := graph.New()
			values := k.Build(g)
			feeds := k.feeds(g)
			want, err := graph.Eval(g, feeds, values...)
			require.NoError(t, err)
			for range 8 {
				for _, name := range slices.Sorted(maps.Keys(feeds)) {
					a := feeds[name]
					for i := range a.Data {
						a.Data[i] *= 1 + 4*eps*(2*rng.Float64()-1)
					}
				}
				got, err := graph.Eval(g, feeds, values...)
				require.NoError(t, err)
				for i := range want {
					assert.Negative(t, farthest(got[i].Data, want[i].Data, 1e-3), mode)
				}
			}
		}
	}
}
