package compile

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// layerOf is a layer of that many rows and heads of that width, its loss and the gradients of its parameters, by path.
func layerOf(g *graph.Graph, rows, head int) (loss *graph.Value, grads map[string]*graph.Value) {
	d := 2 * head
	var params []*graph.Value
	param := func(path string, shape ...int) *graph.Value {
		v := g.Param(path, shape...)
		params = append(params, v)
		return v
	}
	small := func(v *graph.Value) *graph.Value { return g.Scale(v, 1/math.Sqrt(float64(d))) }
	table := param("table", 50, d)
	x := g.Embedding(table, checkedInts(g, "ids", 2, rows))
	n := g.Append(graph.LayerNorm{Eps: 1e-5}, x, param("gamma", d), param("beta", d)).Outputs[0]
	q, k := small(g.MatMul(n, param("q", d, d), false, false)), small(g.MatMul(n, param("k", d, d), false, false))
	a := g.Append(graph.Attention{Heads: 2, KVHeads: 2, HeadDim: head, Causal: true}, g.Rope(q, head, 10000), g.Rope(k, head, 10000), n).Outputs[0]
	x = g.Add(x, g.Add(small(g.MatMul(a, param("o", d, d), false, false)), param("bias", d)))
	h := g.Append(graph.RMSNorm{Eps: 1e-5}, x, param("rms", d)).Outputs[0]
	up := g.Mul(g.Apply("silu", small(g.MatMul(h, param("gate", 3*d, d), false, true))), small(g.MatMul(h, param("up", 3*d, d), false, true)))
	up = g.Apply("gelu_tanh", g.Add(up, param("b", 3*d)))
	x = g.Add(x, small(g.MatMul(up, param("down", 3*d, d), false, false)))
	x = g.Reshape(x, 2*rows, d)
	loss = g.Append(graph.HeadLoss{}, x, table, checkedInts(g, "labels", 2*rows)).Outputs[0]
	values, err := graph.Gradients(g, loss, params)
	if err != nil {
		return nil, nil
	}
	grads = map[string]*graph.Value{}
	for i, p := range params {
		grads[p.Node().Op.(graph.Param).Path] = values[i]
	}
	return loss, grads
}

// A layer whose values lie in bf16 has the gradients of an evaluation that rounds them: with the kernels of processors and of GPUs, with what these
// fuse, where rows are whole vec4s and where they are not, which takes copies. What sums in f32 leave are numbers near the middle of two bf16, which are
// rounded to the other one; in a chain of roundings such changes grow, with heads of 64 most. So the bound is a quarter of what rounding does to a
// gradient, or where that is more, how far the evaluation itself goes when its parameters change by 1e-6.
func TestBF16AgainstTwin(t *testing.T) {
	for _, shape := range [][2]int{{24, 16}, {7, 6}, {40, 64}} {
		for _, hardware := range []bool{false, true} {
			t.Run(fmt.Sprint(shape, hardware), func(t *testing.T) {
				if testing.Short() && (shape[1] == 64 || hardware == (shape[1] == 16)) {
					t.Skip("without -short")
				}
				build := func(stored bool) *twin {
					g := graph.New()
					w := &twin{graph: g, hardware: hardware}
					loss, grads := layerOf(g, shape[0], shape[1])
					require.NoError(t, g.Err())
					if w.values, w.leaves = []*graph.Value{loss}, grads; stored {
						targets := []*graph.Value{loss}
						for _, v := range grads {
							targets = append(targets, v)
						}
						g.StoreBF16(targets...)
					}
					w.feeds = Check{Below: 50}.feeds(g)
					w.feed(rand.New(rand.NewPCG(1, 2)))
					return w
				}
				evaluated := func(w *twin) map[string][]float64 {
					out := map[string][]float64{}
					for path, v := range w.leaves {
						a, err := graph.Eval(w.graph, w.feeds, v)
						require.NoError(t, err)
						out[path] = a[0].Data
					}
					return out
				}
				w, near := build(true), build(true)
				random := rand.New(rand.NewPCG(3, 4))
				for _, path := range slices.Sorted(maps.Keys(near.leaves)) {
					data := near.feeds[path].Data
					for i := range data {
						data[i] *= 1 + 1e-6*random.NormFloat64()
					}
				}
				exact, want, moved := evaluated(build(false)), evaluated(w), evaluated(near)
				got, p := w.run(t, gputest.Device(t))
				for path := range want {
					rounding := distance(exact[path], want[path])
					bound := max(rounding/4, distance(moved[path], want[path]))
					assert.Less(t, bound, 0.7*rounding, "%s: what the bound tells apart", path)
					assert.Less(t, distance(got[path], want[path]), bound, path)
				}
				again, _ := w.run(t, gputest.Device(t))
				assert.Equal(t, got, again)
				plain := build(false)
				_, q := plain.run(t, gputest.Device(t))
				assert.Less(t, float64(p.Plan().Activations), 0.8*float64(q.Plan().Activations))
			})
		}
	}
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// What is larger than a binding has the same bits in parts as in one.
func TestBF16InParts(t *testing.T) {
	inParts(t, 2*partBinding, func(g *graph.Graph) []*graph.Value {
		values := partsOf(g)
		var sums []*graph.Value
		for i, v := range values {
			sums = append(sums, g.Mul(v, g.Constant(float64(i+1))))
		}
		g.StoreBF16(sums...)
		return sums
	})
}

// The result of a kernel that a value in bf16 follows in an epilogue is rounded, though it is not stored, and one that no operation hands on is not.
func TestBF16Types(t *testing.T) {
	g := graph.New()
	x, w := checkedInput(g, "x", 8, 8), g.Param("w", 8, 8)
	y := g.MatMul(x, w, false, false)
	h := g.Apply("exp", g.Mul(y, y))
	z := g.MatMul(h, w, false, false)
	total := g.Sum(z)
	g.StoreBF16(total)
	types := map[*graph.Value]buffers.DType{x: buffers.F32, w: buffers.F32, y: buffers.BF16, h: buffers.BF16, h.Node().Inputs[0]: buffers.F32, z: buffers.BF16, total: buffers.F32}
	for v, want := range types {
		assert.Equal(t, want, v.DType(), v.Node())
	}
	e, err := g.Extract([]*graph.Value{total}, map[*graph.Value]string{y: "y"})
	require.NoError(t, err)
	assert.Equal(t, buffers.BF16, e.Value(y).DType(), "given to a piece as it lies")
	assert.Equal(t, buffers.BF16, e.Value(h).DType())
}

// A head rounds its matrix, its logits and their gradient, also where no value of the graph lies in bf16.
func TestBF16Head(t *testing.T) {
	for _, hardware := range []bool{false, true} {
		g := graph.New()
		x, w, labels := checkedInput(g, "x", 70, 16), g.Param("w", 65, 16), checkedInts(g, "labels", 70)
		op := graph.HeadLoss{BF16: true}
		f := g.Append(op, x, w, labels)
		d := g.Append(graph.HeadLossGrad(op), x, w, labels, f.Outputs[1], checkedInput(g, "dloss"))
		tw := &twin{graph: g, hardware: hardware, values: []*graph.Value{f.Outputs[0], d.Outputs[0]}, leaves: map[string]*graph.Value{"w": d.Outputs[1]}}
		tw.feeds = Check{Below: 65}.feeds(g)
		tw.feed(rand.New(rand.NewPCG(1, 2)))
		got, _ := tw.run(t, gputest.Device(t))
		exact := func(op graph.HeadLoss) [][]float64 {
			loss, err := graph.Eval(g, tw.feeds, tw.values[0], f.Outputs[1])
			require.NoError(t, err)
			in := []*graph.Array{tw.feeds["x"], tw.feeds["w"], tw.feeds["labels"], loss[1], tw.feeds["dloss"]}
			grads := graph.HeadLossGrad(op).Eval(d, in, nil)
			return [][]float64{grads[0].Data, grads[1].Data}
		}
		want, plain := exact(op), exact(graph.HeadLoss{})
		for i, name := range []string{"v1", "w"} {
			assert.Less(t, distance(got[name], want[i]), distance(plain[i], want[i])/4, "%s, hardware %v", name, hardware)
		}
	}
}

// Every number of f16 widens to itself, and numbers next to and between them round as array.EncodeF16 rounds.
func TestHalvesRound(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		var halves []uint16
		var numbers []float32
		for h := range 1 << 16 {
			if h&0x7c00 == 0x7c00 && h&0x3ff > 0 {
				continue // NaN
			}
			x := array.DecodeF16(uint16(h))
			halves = append(halves, uint16(h))
			for _, to := range []float32{-math.MaxFloat32, math.MaxFloat32} {
				next := math.Nextafter32(x, to)
				numbers = append(numbers, x, next)
				if y := array.DecodeF16(uint16(h) ^ 1); y == y {
					numbers = append(numbers, (x+y)/2)
				}
			}
		}
		for len(halves)%8 > 0 {
			halves = append(halves, 0)
		}
		for len(numbers)%8 > 0 {
			numbers = append(numbers, float32(math.Inf(1)))
		}
		c := &Compiler{limits: d.Limits()}
		run := func(kernel *gpu.Kernel, grid gpu.Grid, params, from, to any) {
			raw, out := gpu.Bytes(from), gpu.Bytes(to)
			var at []*gpu.Buffer
			for _, n := range []int{len(raw), len(out)} {
				b, err := d.NewBuffer("test.halves", uint64(n))
				require.NoError(t, err)
				defer b.Release()
				at = append(at, b)
			}
			require.NoError(t, d.Write(at[0].All(), raw))
			rec := d.Record("test.halves")
			rec.Dispatch(kernel, grid, params, at[0].All(), at[1].All())
			require.NoError(t, rec.Submit(t.Context()), rec.String())
			require.NoError(t, d.Read(t.Context(), out, at[1].All()))
			_, err := binary.Decode(out, binary.LittleEndian, to)
			require.NoError(t, err)
		}
		wide, rounded := make([]float32, len(halves)), make([]uint16, len(numbers))
		kernel, grid, params := c.cast(true, true, uint64(len(halves)/4))
		run(kernel, grid, params, halves, wide)
		kernel, grid, params = c.castHalves(buffers.F32, uint64(len(numbers)/8))
		run(kernel, grid, params, numbers, rounded)
		for i, h := range halves {
			require.Equal(t, math.Float32bits(array.DecodeF16(h)), math.Float32bits(wide[i]), "%#x", h)
		}
		for i, x := range numbers {
			require.Equal(t, array.EncodeF16(x), rounded[i], "%g", x)
		}
	})
}
