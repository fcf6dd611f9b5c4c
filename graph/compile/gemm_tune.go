package compile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gputrain/gpu"
	"gputrain/graph"
)

// tuned is the fastest of the table's variant and the other candidates on the compiler's device, measured once and
// remembered by gpu.Device.Choose. Software adapters have the table alone: it was measured on one, and each further variant
// costs them a second of compilation. All candidates sum along K in the same order.
func (c *Compiler) tuned(g gemm, table gemmVariant) gemmVariant {
	const fewest, most = 1 << 22, 256 << 20 // multiply-adds worth a measurement, bytes to take for one
	if c.dev == nil || c.dev.Limits().Software || c.limits.Software || g.m*g.n*g.k*g.count < fewest ||
		g.a.span.Bytes+g.b.span.Bytes+g.c.span.Bytes > most {
		return table
	}
	return c.measured(g, append([]gemmVariant{table}, gpuCandidates(g, table)...))
}

// gpuCandidates are the variants that a GPU may prefer to the table's: the tiles, and some without workgroup memory.
func gpuCandidates(g gemm, table gemmVariant) []gemmVariant {
	if !g.loadsVec4() {
		return nil
	}
	all := []gemmVariant{tiled(32), tiled(64), tiled(128)}
	for _, v := range []gemmVariant{{rows: 4, cols: 1, wx: 8, wy: 8}, {rows: 4, cols: 2, wx: 8, wy: 8}, {rows: 8, cols: 2, wx: 8, wy: 8}} {
		v.file, v.tileM, v.tileN = "matmul", v.rows*v.wy, 4*v.cols*v.wx
		if g.epilogue == nil {
			all = append(all, v)
		}
	}
	return slices.DeleteFunc(all, func(v gemmVariant) bool { return v == table })
}

func (v gemmVariant) name() string {
	if v.rows == 0 {
		return fmt.Sprintf("%s_%d", v.file, v.tileM)
	}
	return fmt.Sprintf("%s_%dx%d_%dx%d", v.file, v.rows, v.cols, v.wx, v.wy)
}

// measured asks the device to choose; the first variant stands when there is no memory to measure in.
func (c *Compiler) measured(g gemm, variants []gemmVariant) gemmVariant {
	ctx := context.Background()
	var candidates []gpu.Candidate
	for _, v := range variants {
		p, err := trialProgram(ctx, c.dev, g, v)
		if errors.Is(err, gpu.ErrOutOfMemory) {
			return variants[0]
		}
		if err != nil {
			c.failErr(err)
			return variants[0]
		}
		defer p.Release()
		candidates = append(candidates, gpu.Candidate{Name: v.name(), Run: func(rec *gpu.Recording) error {
			p.Record(rec)
			return nil
		}})
	}
	key := fmt.Sprintf("matmul trans %v %v accumulate %v f32 %d x %dx%dx%d", g.transA, g.transB, g.accumulate, g.count, g.m, g.n, g.k)
	if g.epilogue != nil {
		key += ", tiles"
	}
	name, err := c.dev.Choose(ctx, key, candidates)
	if err != nil {
		c.failErr(err)
	}
	for _, v := range variants {
		if v.name() == name {
			return v
		}
	}
	return variants[0]
}

// trialProgram is one variant of a product over buffers of its own, as large as the product's.
func trialProgram(ctx context.Context, dev *gpu.Device, g gemm, v gemmVariant) (*Program, error) {
	c, err := newCompiler(graph.New(), nil, dev.Limits())
	if err != nil {
		return nil, err
	}
	c.dev, c.group, c.limits.Software = dev, "trial", false
	g.epilogue, g.c.span.Bytes = nil, max(g.c.span.Bytes, 4*uint64(g.count*g.m*g.n))
	for i, o := range []*operand{&g.a, &g.b, &g.c} {
		s := o.span
		o.span = wholeTensor(c.newStorage(outputStorage, string("abc"[i]), s.Bytes), []int{int(s.Bytes / 4)}, graph.F32().DType).Parts[0].Span
	}
	c.gemmAs(g, v)
	if c.err == nil {
		c.allocate()
	}
	if c.err != nil {
		return nil, c.err
	}
	return newProgram(ctx, c, Options{Label: "trial"})
}
