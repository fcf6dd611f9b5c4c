package state

import (
	"fmt"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/graph"
)

// ProductError is a parameter that products of f16 read, with numbers that f16 has as infinities alone.
type ProductError struct {
	Path      string
	Count, Of int     // numbers that f16 does not hold, and all
	Largest   float32 // of their magnitudes
}

// Error says which, and what may be done.
func (e *ProductError) Error() string {
	return fmt.Sprintf("params: tensor %q: found %d of %d numbers that products of f16 take for infinities, up to %g, "+
		"wanted magnitudes of at most 65504: train.products f32 reads them as they are", e.Path, e.Count, e.Of, e.Largest)
}

// Held are parameters that products of f16 can read: of one that f16 does not hold, which would be a loss of NaN in every step,
// reading is a *ProductError.
func (j Job) Held(params []buffers.Host) ([]buffers.Host, error) {
	if !j.RoundProducts {
		return params, nil
	}
	read, err := j.operands()
	if err != nil {
		return nil, err
	}
	held, frozen := slices.Clone(params), setOf(j.Frozen)
	for i, h := range held {
		if !read[h.Path] {
			continue
		}
		narrow := j.FrozenDType != buffers.F32 && frozen[h.Path]
		if h.Data != nil || h.Read == nil {
			if count, _ := beyondF16(h.Data, narrow); count > 0 {
				return nil, productError(h, narrow)
			}
			continue
		}
		held[i].Read = func(dst []float32, first int) error {
			if err := h.Read(dst, first); err != nil {
				return err
			}
			if count, _ := beyondF16(dst, narrow); count > 0 {
				return productError(h, narrow)
			}
			return nil
		}
	}
	return held, nil
}

// operands are the parameters that products read.
func (j Job) operands() (map[string]bool, error) {
	built, err := j.Build()
	if err != nil {
		return nil, err
	}
	paths, read := map[*graph.Value]string{}, map[string]bool{}
	for i, p := range j.Definition.Params() {
		paths[built.Params[i]] = p.Path
	}
	for _, n := range built.Graph.Nodes() {
		var operands []*graph.Value
		switch op := n.Op.(type) {
		case graph.MatMul, graph.HeadLoss:
			operands = n.Inputs[:2]
		case graph.HeadDivergence:
			if operands = n.Inputs[:2]; op.Listed == 0 {
				operands = slices.Concat(operands, n.Inputs[3:5])
			}
		}
		if len(operands) > 0 {
			for _, v := range operands {
				if from := v.Node(); from != nil && from.Op.Kind() == (graph.Quantize{}).Kind() {
					v = from.Inputs[0]
				}
				if path, ok := paths[v]; ok {
					read[path] = true
				}
			}
		}
	}
	return read, nil
}

// productError counts what of a parameter f16 does not hold.
func productError(h buffers.Host, narrow bool) error {
	e := &ProductError{Path: h.Path, Of: h.Elements()}
	part := make([]float32, min(e.Of, 1<<16))
	for first := 0; first < e.Of; first += len(part) {
		part = part[:min(len(part), e.Of-first)]
		if err := h.Copy(part, first); err != nil {
			return err
		}
		count, largest := beyondF16(part, narrow)
		e.Count, e.Largest = e.Count+count, max(e.Largest, largest)
	}
	return e
}

// beyondF16 counts the finite numbers that f16 rounds to infinities, and finds the largest. narrow: they are rounded to bf16 before.
func beyondF16(part []float32, narrow bool) (count int, largest float32) {
	for _, v := range part {
		a := float32(math.Abs(float64(v)))
		if a < 65408 || v-v != 0 { // half a step of bf16 below 65536; what is not finite has an error of its own
			continue
		}
		if !narrow && a < 65520 {
			continue
		}
		count, largest = count+1, max(largest, a)
	}
	return count, largest
}
