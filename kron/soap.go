package kron

import (
	"fmt"
	"math"

	"gputrain/buffers"
)

// SOAP turns a momentum into coordinates in which its gradients are least correlated, takes Adam's step there and turns it back. A block G [m, n]
// has a covariance and a basis on each side that is turned:
//
//	M = Qlᵀ h Qr;   R = Qlᵀ G Qr, or M with Momentum                      h: the momentum, corrected
//	nu ← b2 nu + (1-b2) R²                                               stays in turned coordinates where Q moves
//	h ← Ql [ M / (sqrt(nu / (1-b2ⁿ)) + eps) ] Qrᵀ
//	Cl ← d Cl + (1-d) G Gᵀ;   Cr ← d Cr + (1-d) Gᵀ G
//	with a refresh, where tr C > 1e-30:  Q ← the orthogonal factor of (C + damping tr(C)/side I) Q,
//	                                     its triangular factor with a positive diagonal; for the updates after this one
//
// It begins with C of 0 and the identity for Q: as Adam. A side longer than MaxSizeDense is not turned and not cut; of a leaf of low rank only the
// shorter side is, as the covariance of the longer one would lack most of its rank.
type SOAP struct {
	BlockSize    int
	MaxSizeDense int
	B2, Decay    float64 // d is the Decay
	Damping, Eps float64
	Momentum     bool // nu is of the momentum
	Uncorrected  bool // nu is not divided by 1-b2ⁿ
}

// Validate checks ranges.
func (c SOAP) Validate() error { return c.config().Validate() }

// config is that of the blocks.
func (c SOAP) config() Config {
	return Config{Method: soap, BlockSize: c.BlockSize, MaxSizeDense: c.MaxSizeDense, PreconditionerLR: 1, InitScale: 1, DType: buffers.F32, Rules: Stable()}
}

// soap lays a model out in blocks of its own.
const soap Method = "soap"

// Turns tells whether a side of the leaf is turned.
func (c SOAP) Turns(leaf Leaf) bool {
	k := merge(leaf, c.config()).Kind
	return k == Dense || k == diagonalLeft || k == diagonalRight
}

// NewSOAPPlan lays out the leaves of a model that are turned. Errors: those of NewPlan, a leaf that is not turned.
func NewSOAPPlan(leaves []Leaf, c SOAP) (*Plan, error) {
	p, err := NewPlan(leaves, c.config())
	if err != nil {
		return nil, err
	}
	for _, m := range p.Leaves {
		if left, right := m.Kind.turns(); m.Kind != Empty && !left && !right {
			return nil, fmt.Errorf("kron: soap: leaf %q: shape %v: found no side that is turned", m.Path, m.Shape)
		}
	}
	return p, nil
}

// turns tells which sides of the blocks of a kind are turned.
func (k Kind) turns() (left, right bool) {
	return k == Dense || k == diagonalRight, k == Dense || k == diagonalLeft
}

// correction is what nu is divided by in update n, counted from 1.
func (c SOAP) correction(n int64) float64 {
	if c.Uncorrected {
		return 1
	}
	return 1 - math.Pow(c.B2, float64(n))
}

// Work counts the multiply-adds of an update of a leaf that refreshes its bases: C, of which half is made, R, M and what is turned back; C Q and two
// passes of reflections for each side.
func (c SOAP) Work(p *Plan, m Matrix) float64 {
	products := 3.5
	if c.Momentum {
		products--
	}
	sum := 0.0
	for _, b := range p.BlocksOf(m) {
		left, right := m.Kind.turns()
		h, w := float64(b.Rows), float64(b.Cols)
		if left {
			sum += products*h*h*w + (1+4./3)*h*h*h
		}
		if right {
			sum += products*h*w*w + (1+4./3)*w*w*w
		}
	}
	return sum
}
