package compile

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
)

// keptChecks compare products and rows of matrices that are kept in bf16 or in codes with those of their numbers in
// float64: rows of whole blocks, which have a loop of their own, blocks across rows, one row, and sides that are no
// multiples of four; rounded to f16, of as many rows as pay for a copy; and of experts, whose matrices share blocks.
func keptChecks() (out []gpu.Check) {
	for _, kept := range array.Bases[1:] {
		for _, k := range []struct {
			name   string
			f16    bool
			shapes [][]int // rows, and those of a matrix
		}{
			{name: "products of %v", shapes: [][]int{{70, 192, 192}, {33, 132, 68}, {1, 64, 260}, {9, 35, 13}}},
			{name: "products of %v in f16", f16: true, shapes: [][]int{{520, 72, 64}}},
			{name: "experts of %v", shapes: [][]int{{40, 5, 12, 20}}},
		} {
			out = append(out, gpu.Check{Name: "graph " + fmt.Sprintf(k.name, kept), Run: func(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
				result := gpu.Result{Tolerance: 256.0 / (1 << 23)}
				for _, s := range k.shapes {
					if err := checkKept(ctx, d, kept, s, k.f16, &result); err != nil {
						return result, err
					}
				}
				return result, nil
			}})
		}
	}
	return out
}

func checkKept(ctx context.Context, d *gpu.Device, kept buffers.DType, s []int, f16 bool, result *gpu.Result) error {
	shape := s[1:]
	rng := rand.New(rand.NewPCG(1, 2))
	w := make([]float32, graph.Elements(shape))
	for i := range w {
		w[i] = float32(rng.NormFloat64())
	}
	const path = "h.0.w" // a matrix of a layer
	tree, err := buffers.Upload(d, "check", []buffers.Host{{Path: path, Shape: shape, Data: w}}, kept)
	if err != nil {
		return err
	}
	defer tree.Release()
	numbers, err := tree.Read(ctx, path)
	if err != nil {
		return err
	}
	g := graph.New()
	values := readsOf(g, g.Param(path, shape...), s[0])
	if f16 {
		g.RoundProducts()
	}
	o := Options{Label: "check", Beside: []*buffers.Tree{tree}}
	for i, v := range values {
		o.Targets = append(o.Targets, Target{Name: fmt.Sprint(i), Value: v})
	}
	p, err := New(ctx, d, g, o)
	if err != nil {
		return err
	}
	defer p.Release()
	feeds := (Check{Below: shape[0]}).feeds(g)
	feeds[path] = graph.NewArray(shape)
	for i, v := range numbers {
		feeds[path].Data[i] = float64(v)
	}
	return p.compare(ctx, g, feeds, values, result, nil, func(i, j int, got float32, want float64) string {
		return fmt.Sprintf("%v, output %d element %d: %g, want %g", s, i, j, got, want)
	})
}

// readsOf are what reads a matrix, or matrices of experts, as they are kept, of so many rows: products both ways, and rows of a matrix.
func readsOf(g *graph.Graph, w *graph.Value, rows int) []*graph.Value {
	shape := w.Shape()
	inner, outer := shape[len(shape)-1], shape[len(shape)-2]
	x, dy := checkedInput(g, "x", rows, inner), checkedInput(g, "dy", rows, outer)
	if len(shape) == 2 {
		return []*graph.Value{g.MatMul(x, w, false, true), g.MatMul(dy, w, false, false), g.Embedding(w, checkedInts(g, "ids", 2, 11))}
	}
	const choices = 2
	tile := graph.RaggedTile(rows*choices, shape[0])
	group := g.Append(graph.Group{Experts: shape[0], Tile: tile}, g.Append(graph.Router{K: choices}, checkedInput(g, "logits", rows, shape[0])).Outputs[1])
	multiply := func(x *graph.Value, trans bool) *graph.Value {
		laid := g.Append(graph.Spread{}, x, group.Outputs[0], group.Outputs[1]).Outputs[0]
		return g.Append(graph.RaggedMatMul{TransW: trans, Tile: tile, Rows: rows * choices}, laid, w, group.Outputs[2]).Outputs[0]
	}
	return []*graph.Value{multiply(x, true), multiply(dy, false)}
}
