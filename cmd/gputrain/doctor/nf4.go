package doctor

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/hub/bitsandbytes"
	"gputrain/internal/nf4"
)

// runNF4 compares the matrix that bitsandbytes has stored with what it stands for: as the host reads it, and as the products of the device do, forward and
// backward, with nested maxima also as they are. What was quantized must get the codes of the file.
func runNF4(ctx context.Context, dev *gpu.Device, c *goldenCase) (*comparison, error) {
	var file struct {
		Weight    string    `json:"weight"`
		Tolerance tolerance `json:"tolerance"`
	}
	if err := c.decode(&file); err != nil {
		return nil, err
	}
	m, err := bitsandbytes.Open(func(tensor string) *safetensors.File {
		if _, _, ok := c.tensors.Info(tensor); !ok {
			return nil
		}
		return c.tensors
	}, file.Weight)
	if err != nil {
		return nil, err
	}
	want := c.floats("expect/w")
	if c.err != nil {
		return nil, c.err
	}
	host := make([]float32, m.Elements())
	if err := m.Read(host, 0); err != nil {
		return nil, err
	}
	seen := &comparison{}
	seen.tensor("host", host, want, file.Tolerance)
	if err := c.quantizes(seen, m); err != nil {
		return nil, err
	}
	if len(m.Shape) != 2 || m.Block < nf4.Block {
		return seen, nil // no device keeps it so
	}
	n, _ := m.Nested() // nil where no device keeps it nested
	for _, kept := range array.Bases {
		if f := kept.Format(); !kept.Packed() || f.Load != m.Load() || f.Group > 0 && n == nil {
			continue
		}
		forward, backward, err := throughProducts(ctx, dev, m, kept)
		if err != nil {
			return nil, err
		}
		for i := range want {
			forward[i], backward[i] = bitsandbytes.Round(m.DType, forward[i]), bitsandbytes.Round(m.DType, backward[i])
		}
		seen.tensor(fmt.Sprintf("%v on the device, forward", kept), forward, want, file.Tolerance)
		seen.tensor(fmt.Sprintf("%v on the device, backward", kept), backward, want, file.Tolerance)
	}
	return seen, nil
}

// quantizes compares the codes that the host gives what was quantized, where the case has that, with the file's.
func (c *goldenCase) quantizes(seen *comparison, m *bitsandbytes.Matrix) error {
	if _, _, ok := c.tensors.Info("original/w"); !ok || m.Block != nf4.Block {
		return nil
	}
	x, err := c.tensors.Float32("original/w")
	if err != nil {
		return err
	}
	if len(x) != m.Elements() {
		return fmt.Errorf("original/w: found %d elements, wanted %d", len(x), m.Elements())
	}
	codes, own, maxima := make([]byte, (len(x)+1)/2), make([]byte, (len(x)+1)/2), make([]float32, nf4.Blocks(len(x)))
	if err := m.ReadCodes(codes, 0); err != nil {
		return err
	}
	nf4.Quantize(own, maxima, x)
	for i := range x {
		seen.number("codes of original/w", float64(nf4.Code(own, i)), float64(nf4.Code(codes, i)), 0)
	}
	return nil
}

// throughProducts reads a matrix w as products do that have it in nf4, nested or not: the transpose of 1 w^T, and 1 w, whose sums have one term that is not zero.
func throughProducts(ctx context.Context, dev *gpu.Device, m *bitsandbytes.Matrix, kept buffers.DType) (forward, backward []float32, err error) {
	const path = "0.w" // a matrix of a layer
	rows, cols := m.Shape[0], m.Shape[1]
	tree, err := buffers.Upload(dev, "case.nf4", []buffers.Host{{Path: path, Shape: m.Shape, Read: m.Read, Packed: m}}, kept)
	if err != nil {
		return nil, nil, err
	}
	defer tree.Release()
	g := graph.New()
	w := g.Param(path, rows, cols)
	values := map[string]*graph.Value{
		"forward": g.MatMul(g.Input("x", graph.F32(cols, cols)), w, false, true), "backward": g.MatMul(g.Input("dy", graph.F32(rows, rows)), w, false, false),
	}
	o := compile.Options{Label: "case.nf4", Beside: []*buffers.Tree{tree}}
	for _, name := range []string{"forward", "backward"} {
		o.Targets = append(o.Targets, compile.Target{Name: name, Value: values[name]})
	}
	found, err := computed(ctx, dev, "nf4", g, o, func(p *compile.Program) error {
		for name, n := range map[string]int{"x": cols, "dy": rows} {
			one := make([]float32, n*n)
			for i := range n {
				one[i*n+i] = 1
			}
			if err := p.WriteFloats(name, one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	forward = make([]float32, rows*cols)
	for i := range forward {
		forward[i] = found["forward"][i%cols*rows+i/cols]
	}
	return forward, found["backward"][:rows*cols], nil
}
