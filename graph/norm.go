package graph

import (
	"fmt"
	"math"
)

// LayerNorm takes x [..,D], gamma [D], beta [D] to y = (x - mean) rstd gamma + beta, rstd = 1/sqrt(var + Eps) with the biased
// variance of a row, and to stats [rows,2] = (mean, rstd) for the backward pass.
type LayerNorm struct {
	Eps float64 `json:"eps"`
}

func (LayerNorm) Kind() string { return "layer_norm" }

func (o LayerNorm) Infer(in []*Value) ([]Type, error) {
	if err := normInputs(in, 3, o.Eps); err != nil {
		return nil, err
	}
	n, d := Rows(in[0].Shape())
	return []Type{F32(in[0].Shape()...), F32(n, 2)}, wantShape("beta", in[2], d)
}

// FLOPs is 8 an element.
func (LayerNorm) FLOPs(n *Node) int64 { return 8 * int64(n.Inputs[0].typ.Elements()) }

// RMSNorm takes x [..,D], gamma [D] to y = x rstd gamma, rstd = 1/sqrt(mean x^2 + Eps) of a row, and to stats [rows,1] = rstd.
type RMSNorm struct {
	Eps float64 `json:"eps"`
}

func (RMSNorm) Kind() string { return "rms_norm" }

func (o RMSNorm) Infer(in []*Value) ([]Type, error) {
	if err := normInputs(in, 2, o.Eps); err != nil {
		return nil, err
	}
	n, _ := Rows(in[0].Shape())
	return []Type{F32(in[0].Shape()...), F32(n, 1)}, nil
}

// FLOPs is 4 an element.
func (RMSNorm) FLOPs(n *Node) int64 { return 4 * int64(n.Inputs[0].typ.Elements()) }

func normInputs(in []*Value, count int, eps float64) error {
	if err := arity(in, count); err != nil {
		return err
	}
	if err := wantRank("x", in[0], 1); err != nil {
		return err
	}
	_, d := Rows(in[0].Shape())
	if d == 0 {
		return fmt.Errorf("x has shape %v, want a last dimension of 1 or more", in[0].Shape())
	}
	if !(eps >= 0) || math.IsInf(eps, 0) {
		return fmt.Errorf("eps %g, want 0 or more", eps)
	}
	return wantShape("gamma", in[1], d)
}

// LayerNormGrad takes (x, gamma, stats, dy) to dx = rstd (g - mean g - xhat mean(g xhat)), g = dy gamma, xhat = (x - mean) rstd.
type LayerNormGrad struct{}

func (LayerNormGrad) Kind() string { return "layer_norm_grad" }

func (LayerNormGrad) Infer(in []*Value) ([]Type, error) { return normGradInfer(in, 2) }

// FLOPs is 11 an element.
func (LayerNormGrad) FLOPs(n *Node) int64 { return 11 * int64(n.Inputs[0].typ.Elements()) }

// RMSNormGrad takes (x, gamma, stats, dy) to dx = rstd (g - xhat mean(g xhat)), g = dy gamma, xhat = x rstd.
type RMSNormGrad struct{}

func (RMSNormGrad) Kind() string { return "rms_norm_grad" }

func (RMSNormGrad) Infer(in []*Value) ([]Type, error) { return normGradInfer(in, 1) }

// FLOPs is 8 an element.
func (RMSNormGrad) FLOPs(n *Node) int64 { return 8 * int64(n.Inputs[0].typ.Elements()) }

func normGradInfer(in []*Value, stats int) ([]Type, error) {
	if err := normInputs(in, 4, 0); err != nil {
		return nil, err
	}
	n, _ := Rows(in[0].Shape())
	if err := wantShape("stats", in[2], n, stats); err != nil {
		return nil, err
	}
	return []Type{F32(in[0].Shape()...)}, wantShape("dy", in[3], in[0].Shape()...)
}

// NormGammaGrad takes (x [..,D], stats, dy) to dgamma [D], the sum over the rows of dy xhat; RMS tells the kind of the norm.
type NormGammaGrad struct {
	RMS bool `json:"rms,omitempty"`
}

func (NormGammaGrad) Kind() string { return "norm_gamma_grad" }

func (o NormGammaGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if err := wantRank("x", in[0], 1); err != nil {
		return nil, err
	}
	n, d := Rows(in[0].Shape())
	stats := 2
	if o.RMS {
		stats = 1
	}
	if err := wantShape("stats", in[1], n, stats); err != nil {
		return nil, err
	}
	return []Type{F32(d)}, wantShape("dy", in[2], in[0].Shape()...)
}

// FLOPs is 4 an element.
func (NormGammaGrad) FLOPs(n *Node) int64 { return 4 * int64(n.Inputs[0].typ.Elements()) }

// Gradient is LayerNormGrad for x, NormGammaGrad for gamma, and the sum over the rows for beta.
func (LayerNorm) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return normGradient(g, n, LayerNormGrad{}, dy)
}

// Gradient is RMSNormGrad for x and NormGammaGrad for gamma.
func (RMSNorm) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return normGradient(g, n, RMSNormGrad{}, dy)
}

func normGradient(g *Graph, n *Node, op Op, dy []*Value) []*Value {
	d, x, gamma, stats := dy[0], n.Inputs[0], n.Inputs[1], n.Outputs[1]
	out := make([]*Value, len(n.Inputs))
	if !g.onlyFirst(n, dy) {
		return out
	}
	if g.wants(x) {
		out[0] = g.one(op, x, gamma, stats, d)
	}
	if g.wants(gamma) {
		_, rms := op.(RMSNormGrad)
		out[1] = g.one(NormGammaGrad{RMS: rms}, x, stats, d)
	}
	if len(n.Inputs) == 3 && g.wants(n.Inputs[2]) {
		out[2] = g.unbroadcast(d, d.Shape(), n.Inputs[2].Shape())
	}
	return out
}

// normed gives the rows of x without gamma and beta, and rstd of each row, from the statistics (mean, rstd) or (rstd).
func normed(x, stats *Array) (xhat, rstd []float64) {
	n, d := Rows(x.Shape)
	xhat, rstd = make([]float64, len(x.Data)), make([]float64, n)
	for r := range n {
		mean := 0.0
		if s := stats.Data[r*stats.Shape[1]:]; stats.Shape[1] == 2 {
			mean, rstd[r] = s[0], s[1]
		} else {
			rstd[r] = s[0]
		}
		for i := r * d; i < (r+1)*d; i++ {
			xhat[i] = (x.Data[i] - mean) * rstd[r]
		}
	}
	return xhat, rstd
}

// Eval is the definition.
func (o LayerNorm) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	x, gamma, beta := in[0], in[1], in[2]
	n, d := Rows(x.Shape)
	y, stats := NewArray(x.Shape), NewArray([]int{n, 2})
	for r := range n {
		mean, variance := 0.0, 0.0
		for _, v := range x.Data[r*d : (r+1)*d] {
			mean += v / float64(d)
		}
		for _, v := range x.Data[r*d : (r+1)*d] {
			variance += (v - mean) * (v - mean) / float64(d)
		}
		stats.Data[2*r], stats.Data[2*r+1] = mean, 1/math.Sqrt(variance+o.Eps)
	}
	xhat, _ := normed(x, stats)
	for i := range y.Data {
		y.Data[i] = xhat[i]*gamma.Data[i%d] + beta.Data[i%d]
	}
	return []*Array{y, stats}
}

// Eval is the definition.
func (o RMSNorm) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	x, gamma := in[0], in[1]
	n, d := Rows(x.Shape)
	y, stats := NewArray(x.Shape), NewArray([]int{n, 1})
	for r := range n {
		row := x.Data[r*d : (r+1)*d]
		stats.Data[r] = 1 / math.Sqrt(dot(row, row)/float64(d)+o.Eps)
	}
	xhat, _ := normed(x, stats)
	for i := range y.Data {
		y.Data[i] = xhat[i] * gamma.Data[i%d]
	}
	return []*Array{y, stats}
}

// Eval is the definition.
func (LayerNormGrad) Eval(_ *Node, in []*Array, _ *Env) []*Array { return normGradEval(in, true) }

// Eval is the definition.
func (RMSNormGrad) Eval(_ *Node, in []*Array, _ *Env) []*Array { return normGradEval(in, false) }

// normGradEval is dx = rstd (g - mean g - xhat mean(g xhat)), g = dy gamma; mean g only where the norm is centred.
func normGradEval(in []*Array, centred bool) []*Array {
	x, gamma, stats, dy := in[0], in[1], in[2], in[3]
	dx := NewArray(x.Shape)
	n, d := Rows(x.Shape)
	xhat, rstd := normed(x, stats)
	for r := range n {
		meanG, meanGX := 0.0, 0.0
		for i := range d {
			gi := dy.Data[r*d+i] * gamma.Data[i]
			meanG += gi / float64(d)
			meanGX += gi * xhat[r*d+i] / float64(d)
		}
		if !centred {
			meanG = 0
		}
		for i := range d {
			dx.Data[r*d+i] = rstd[r] * (dy.Data[r*d+i]*gamma.Data[i] - meanG - xhat[r*d+i]*meanGX)
		}
	}
	return []*Array{dx}
}

// Eval is the definition.
func (NormGammaGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	x, stats, dy := in[0], in[1], in[2]
	dgamma := NewArray(n.Outputs[0].Shape())
	xhat, _ := normed(x, stats)
	for i := range xhat {
		dgamma.Data[i%len(dgamma.Data)] += dy.Data[i] * xhat[i]
	}
	return []*Array{dgamma}
}
