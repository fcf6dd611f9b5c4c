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
