package kron

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
)

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}

func bf16(x float64) float64 { return float64(array.DecodeBF16(array.EncodeBF16(float32(x)))) }

func exactBF16(x []float32) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(bf16(float64(x[i])))
	}
	return out
}

// goldenRun is an optimizer around the twin.
type goldenRun struct {
	*goldenCase
	twin            *Twin
	plan            *Plan
	params, mu, acc map[string][]float64
	updates         int64
}

func newGoldenRun(t *testing.T, c *goldenCase) *goldenRun {
	r := &goldenRun{goldenCase: c, params: map[string][]float64{}, mu: map[string][]float64{}, acc: map[string][]float64{}}
	var leaves []Leaf
	for _, p := range c.Params {
		leaves = append(leaves, Leaf{Path: p.Name, Shape: p.Shape, Scanned: p.Scanned})
		r.params[p.Name] = float64Tensor(t, c.tensors, "params/"+p.Name)
		r.mu[p.Name] = make([]float64, len(r.params[p.Name]))
		r.acc[p.Name] = make([]float64, len(r.params[p.Name]))
	}
	config := Config{
		Method: Method(c.Optimizer), BlockSize: c.Config.BlockSize, MaxSizeDense: c.Config.MaxSizeDense, PreconditionerLR: c.Config.PreconditionerLR,
		InitScale: c.Config.InitScale, DType: buffers.F32, NoiseScale: c.Config.NoiseScale,
	}
	if c.Config.DType == "bfloat16" {
		config.DType = buffers.BF16
	}
	var err error
	r.plan, err = NewPlan(leaves, config)
	require.NoError(t, err)
	r.twin, err = NewTwin(r.plan, nil)
	require.NoError(t, err)
	return r
}

// call takes one gradient; every k-th makes an update.
func (r *goldenRun) call(t *testing.T, step int) {
	k := max(r.AccumulationSteps, 1)
	grads := map[string][]float64{}
	for name, acc := range r.acc {
		g := float64Tensor(t, r.tensors, fmt.Sprintf("grads/%d/%s", step, name))
		for i := range acc {
			acc[i] += (g[i] - acc[i]) / float64(step%k+1)
			grads[name] = append(grads[name], acc[i])
			acc[i] = float64(float32(acc[i]))
		}
	}
	if step%k != k-1 {
		return
	}
	for _, acc := range r.acc {
		clear(acc)
	}
	if r.ClipGrad > 0 {
		squares := 0.0
		for _, name := range slices.Sorted(maps.Keys(grads)) {
			squares += rowSquares(grads[name], 1)[0]
		}
		if norm := math.Sqrt(squares); norm >= r.ClipGrad {
			for _, g := range grads {
				for i := range g {
					g[i] *= r.ClipGrad / norm
				}
			}
		}
	}
	r.updates++
	for name := range grads {
		grads[name] = r.momentum(name, grads[name])
	}
	require.NoError(t, r.twin.Update(r.updates, grads, false, false))
	lr := r.LearningRates[r.updates-1]
	for name, u := range grads {
		limit := 1.1 / max(rootMeanSquare(u), 1.1)
		p := r.params[name]
		for i := range u {
			u[i] *= limit
			if r.Config.Style == "adam" {
				u[i] /= 5
			}
			if masked(r.Config.WeightDecayMask, name) {
				u[i] += r.Config.WeightDecay * p[i]
			}
			external := 0.0
			if masked(r.WeightDecayMask, name) {
				external = r.WeightDecay * p[i]
			}
			p[i] = float64(float32(p[i] - lr*(u[i]+external)))
		}
	}
}

func masked(mask map[string]bool, name string) bool { return mask == nil || mask[name] }

// momentum is the mean of gradients with its bias corrected, of norm one with normalize_grads.
func (r *goldenRun) momentum(name string, g []float64) []float64 {
	store, b1 := func(x float64) float64 { return float64(float32(x)) }, r.Config.B1
	if r.plan.Config.isBF16() {
		store, b1 = bf16, bf16(b1)
	}
	if r.Config.B1 > 0 {
		for i := range g {
			mean := (1-r.Config.B1)*g[i] + store(b1*r.mu[name][i])
			r.mu[name][i] = store(mean)
			g[i] = store(mean / (1 - math.Pow(r.Config.B1, float64(r.updates))))
		}
	}
	if r.Config.NormalizeGrads {
		norm := math.Sqrt(rowSquares(g, 1)[0])
		for i := range g {
			g[i] /= norm + 1e-6
		}
	}
	return g
}

// state has the names of the cases: slot/leaf, slot/dense with blocks padded to the block size.
func (r *goldenRun) state() map[string][]float32 {
	out := map[string][]float32{}
	for name := range r.mu {
		out["mu/"+name], out["acc/"+name] = narrow(r.mu[name]), narrow(r.acc[name])
	}
	for _, h := range r.twin.Tensors() {
		for _, slot := range []string{"Ql", "Qr", "Ll", "Lr"} {
			if h.Path == "dense/"+slot {
				out[slot+"/dense"] = padMatrices(h, r.plan.Config.BlockSize)
			}
			for _, m := range r.plan.Leaves {
				if h.Path == "leaf/"+m.Path+"/"+slot {
					out[slot+"/"+m.Path] = padMatrices(h, r.plan.Config.BlockSize)
				}
			}
		}
	}
	return out
}

// padMatrices pads the matrices of a stack with zeros; stacks of vectors stay.
func padMatrices(h buffers.Host, size int) []float32 {
	if len(h.Shape) != 3 {
		return h.Data
	}
	out := make([]float32, h.Shape[0]*size*size)
	for i := range h.Shape[0] {
		for r := range h.Shape[1] {
			copy(out[(i*size+r)*size:], h.Data[(i*h.Shape[1]+r)*h.Shape[2]:][:h.Shape[2]])
		}
	}
	return out
}
