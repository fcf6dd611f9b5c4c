// Package inspect reads what an optimizer remembers of each parameter out of a checkpoint: norms of its moments, and of Kronecker factors
// how far they have gone and whether they are well.
package inspect

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/kron"
	"gputrain/run/train"
)

// Leaf is a parameter and what is remembered of it.
type Leaf struct {
	Path  string           `json:"leaf"`
	Shape []int            `json:"shape"`
	State map[string]Array `json:"state,omitempty"` // by slot: mu, nu, v_row
	Kron  *Factors         `json:"kron,omitempty"`
}

// Array is a tensor in figures. Elements that are not finite are counted and left out of the others.
type Array struct {
	DType     string       `json:"dtype"`
	Norm      train.Number `json:"norm"` // of all elements, L2
	RMS       train.Number `json:"rms"`
	MaxAbs    train.Number `json:"max_abs"`
	NonFinite int          `json:"non_finite"`
}

// Spread is the range of a figure over blocks.
type Spread struct {
	Min    train.Number `json:"min"`
	Median train.Number `json:"median"`
	Max    train.Number `json:"max"`
}

// spread of nothing is NaN; so is that of anything with a NaN.
func spread(v []float64) Spread {
	nan := train.Number(math.NaN())
	if len(v) == 0 || slices.ContainsFunc(v, math.IsNaN) {
		return Spread{nan, nan, nan}
	}
	v = slices.Sorted(slices.Values(v))
	low, high := v[(len(v)-1)/2], v[len(v)/2]
	median := low
	if high != low {
		median = (low + high) / 2
	}
	return Spread{train.Number(v[0]), train.Number(median), train.Number(v[len(v)-1])}
}

// Optimizer reads optimizer.safetensors of a model with these parameters, in their order. plan is the blocks of the parameters that have
// Kronecker factors, nil where none has. Errors: a tensor that is missing, does not fit or belongs to no parameter.
func Optimizer(f *safetensors.File, params []buffers.Spec, plan *kron.Plan) ([]Leaf, error) {
	leaves := make([]Leaf, len(params))
	at := map[string]int{}
	for i, p := range params {
		leaves[i], at[p.Path] = Leaf{Path: p.Path, Shape: p.Shape, State: map[string]Array{}}, i
	}
	for _, name := range f.Names() {
		slot, path, _ := strings.Cut(name, "/")
		if slot == "dense" && plan != nil {
			continue
		}
		if slot == "leaf" && plan != nil {
			if end := strings.LastIndexByte(path, '/'); end >= 0 {
				path = path[:end]
			}
		}
		i, ok := at[path]
		if !ok {
			return nil, fmt.Errorf("inspect: tensor %q: belongs to no parameter of the model", name)
		}
		if slot == "leaf" && plan != nil {
			continue
		}
		a, err := array(f, name)
		if err != nil {
			return nil, err
		}
		leaves[i].State[slot] = a
	}
	if plan == nil {
		return leaves, nil
	}
	if err := stackFits(f, plan); err != nil {
		return nil, err
	}
	for _, m := range plan.Leaves {
		i, ok := at[m.Path]
		if !ok || m.Kind == kron.Empty {
			continue
		}
		factors, err := factorsOf(f, plan, m)
		if err != nil {
			return nil, fmt.Errorf("inspect: %s: %w", m.Path, err)
		}
		leaves[i].Kron = factors
	}
	return leaves, nil
}

func array(f *safetensors.File, name string) (Array, error) {
	dtype, _, _ := f.Info(name)
	values, err := f.Float32(name)
	if err != nil {
		return Array{}, err
	}
	a := Array{DType: dtype}
	squares, n := 0.0, 0
	for _, v := range values {
		x := float64(v)
		if !finite(x) {
			a.NonFinite++
			continue
		}
		squares += x * x
		a.MaxAbs = max(a.MaxAbs, train.Number(math.Abs(x)))
		n++
	}
	a.Norm, a.RMS = train.Number(math.Sqrt(squares)), train.Number(math.Sqrt(squares/float64(max(1, n))))
	return a, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
