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

// keptChecks compare products and rows of a matrix that is kept in bf16 or in codes with those of its numbers in
// float64: rows of whole blocks, which have a loop of their own, blocks across rows, one row, and sides that are no
// multiples of four; and rounded to f16, of as many rows as pay for a copy.
func keptChecks() (out []gpu.Check) {
	for _, kept := range array.Bases[1:] {
		check := func(f16 bool, shapes ...[3]int) func(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
			return func(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
				result := gpu.Result{Tolerance: 256.0 / (1 << 23)}
				for _, s := range shapes {
					if err := checkKept(ctx, d, kept, s, f16, &result); err != nil {
						return result, err
					}
				}
				return result, nil
			}
		}
		out = append(
			out,
			gpu.Check{Name: fmt.Sprintf("graph products of %v", kept), Run: check(false, [3]int{70, 192, 192}, [3]int{33, 132, 68}, [3]int{1, 64, 260}, [3]int{9, 35, 13})},
			gpu.Check{Name: fmt.Sprintf("graph products of %v in f16", kept), Run: check(true, [3]int{520, 72, 64})},
		)
	}
	return out
}

func checkKept(ctx context.Context, d *gpu.Device, kept buffers.DType, s [3]int, f16 bool, result *gpu.Result) error {
	rng := rand.New(rand.NewPCG(1, 2))
	w := make([]float32, s[1]*s[2])
	for i := range w {
		w[i] = float32(rng.NormFloat64())
	}
	const path = "h.0.w" // a matrix of a layer
	tree, err := buffers.Upload(d, "check", []buffers.Host{{Path: path, Shape: s[1:], Data: w}}, kept)
	if err != nil {
		return err
	}
	defer tree.Release()
	numbers, err := tree.Read(ctx, path)
	if err != nil {
		return err
	}
	g := graph.New()
	x, dy, weights := checkedInput(g, "x", s[0], s[2]), checkedInput(g, "dy", s[0], s[1]), g.Param(path, s[1:]...)
	values := []*graph.Value{g.MatMul(x, weights, false, true), g.MatMul(dy, weights, false, false), g.Embedding(weights, checkedInts(g, "ids", 2, 11))}
	if f16 {
		g.RoundProducts()
	}
	p, err := New(ctx, d, g, Options{Label: "check", Beside: []*buffers.Tree{tree}, Targets: []Target{
		{Name: "0", Value: values[0]}, {Name: "1", Value: values[1]}, {Name: "2", Value: values[2]},
	}})
	if err != nil {
		return err
	}
	defer p.Release()
	feeds := (Check{Below: s[1]}).feeds(g)
	feeds[path] = graph.NewArray(s[1:])
	for i, v := range numbers {
		feeds[path].Data[i] = float64(v)
	}
	return p.compare(ctx, g, feeds, values, result, nil, func(i, j int, got float32, want float64) string {
		return fmt.Sprintf("%v, output %d element %d: %g, want %g", s, i, j, got, want)
	})
}
