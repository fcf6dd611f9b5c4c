package inspect

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"gputrain/buffers/safetensors"
	"gputrain/internal/caught"
	"gputrain/kron"
	"gputrain/run/train"
)

// Factors are the Kronecker factors of a parameter.
type Factors struct {
	Kind   string  `json:"kind"`
	Blocks int     `json:"blocks"`
	Left   Factor  `json:"left"`
	Right  *Factor `json:"right,omitempty"` // nil for vectors
	// Health: blocks whose factors have never been refreshed (their Lipschitz estimates are 0), that have something not finite, and
	// whose largest element is below 1e-6 or above 1e6, where they begin with 1.
	NeverUpdated int `json:"never_updated"`
	NotFinite    int `json:"not_finite"`
	Extreme      int `json:"extreme"`
	// GradientRMS is the running size of the blocks' gradients, where it is kept.
	GradientRMS *Spread `json:"gradient_rms,omitempty"`
}

// Factor is one side over all blocks of a parameter.
type Factor struct {
	Norm      train.Number `json:"norm"`      // of all blocks, L2
	Condition Spread       `json:"condition"` // largest over smallest singular value: exact for diagonals, else an estimate from below
	Lipschitz Spread       `json:"lipschitz"`
}

// Where the largest element of a factor is out of these, it is at an extreme scale.
const extremeLow, extremeHigh = 1e-6, 1e6

// stackFits compares the dense stack in the file with the plan's.
func stackFits(f *safetensors.File, plan *kron.Plan) error {
	n := plan.DenseBlocks()
	if n == 0 {
		return nil
	}
	for _, name := range []string{"dense/Ql", "dense/Qr"} {
		if _, shape, ok := f.Info(name); !ok || len(shape) != 3 || shape[0] != n || shape[1] != shape[2] {
			return fmt.Errorf("inspect: tensor %s: shape %v, want [%d, side, side]", name, shape, n)
		}
	}
	rows, err := f.Int32("dense/valid_rows")
	if err != nil {
		return err
	}
	cols, err := f.Int32("dense/valid_cols")
	if err != nil {
		return err
	}
	for _, b := range plan.Blocks {
		if plan.Leaves[b.Leaf].Kind != kron.Dense {
			continue
		}
		if b.Stack >= len(rows) || b.Stack >= len(cols) || int(rows[b.Stack]) != b.Rows || int(cols[b.Stack]) != b.Cols {
			return fmt.Errorf("inspect: dense block %d of %s: not of the size that the model and the optimizer's parameters give it (%dx%d)",
				b.Stack, plan.Leaves[b.Leaf].Path, b.Rows, b.Cols)
		}
	}
	return nil
}

// stack is the tensors of a leaf's blocks: row first+i of each is block i.
type stack struct {
	prefix string
	first  int
}

// factorsOf reads the factors of one leaf, block by block.
func factorsOf(f *safetensors.File, plan *kron.Plan, m kron.Matrix) (*Factors, error) {
	blocks := plan.BlocksOf(m)
	s := stack{prefix: "leaf/" + m.Path + "/"}
	if m.Kind == kron.Dense {
		s = stack{prefix: "dense/", first: blocks[0].Stack}
	}
	out := &Factors{Kind: m.Kind.String(), Blocks: len(blocks)}
	left, err := s.side(f, "l", blocks, m.Kind == kron.Vector)
	if err != nil {
		return nil, err
	}
	out.Left = left.factor()
	right := side{}
	if m.Kind != kron.Vector {
		if right, err = s.side(f, "r", blocks, false); err != nil {
			return nil, err
		}
		factor := right.factor()
		out.Right = &factor
	}
	for i := range blocks {
		never, broken, extreme := left.health(i)
		if m.Kind != kron.Vector {
			n, b, e := right.health(i)
			never, broken, extreme = never && n, broken || b, extreme || e
		}
		out.NeverUpdated += count(never)
		out.NotFinite += count(broken)
		out.Extreme += count(extreme)
	}
	if _, _, ok := f.Info(s.prefix + "rms"); ok {
		values, err := f.Float32Rows(s.prefix+"rms", s.first, len(blocks))
		if err != nil {
			return nil, err
		}
		r := spread(widen(values))
		out.GradientRMS = &r
	}
	return out, nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// side is one factor of each block of a leaf.
type side struct {
	squares, largest, condition, lipschitz []float64 // by block; NaN where a factor is not finite
}

// side reads "Ql" and "Ll", or "Qr" and "Lr". A dense factor's valid part is as large as its side of the block; the one factor of a vector,
// which is a row, is as long as the row.
func (s stack) side(f *safetensors.File, which string, blocks []kron.Block, vector bool) (side, error) {
	name := s.prefix + "Q" + which
	_, shape, ok := f.Info(name)
	if !ok || len(shape) < 2 || len(shape) > 3 || shape[0] < s.first+len(blocks) || len(shape) == 3 && shape[1] != shape[2] {
		return side{}, fmt.Errorf("tensor %s: shape %v, want diagonals or squares of %d blocks", name, shape, len(blocks))
	}
	estimates, err := f.Float32Rows(s.prefix+"L"+which, s.first, len(blocks))
	if err != nil {
		return side{}, err
	}
	out := side{
		squares: make([]float64, len(blocks)), largest: make([]float64, len(blocks)), condition: make([]float64, len(blocks)),
		lipschitz: widen(estimates),
	}
	return out, caught.Each(len(blocks), runtime.NumCPU(), func(i int) error {
		n := blocks[i].Rows
		if which == "r" || vector {
			n = blocks[i].Cols
		}
		if n > shape[1] {
			return fmt.Errorf("tensor %s: shape %v, want %d of block %d", name, shape, n, i)
		}
		values, err := f.Float32Rows(name, s.first+i, 1)
		if err != nil {
			return err
		}
		out.measure(i, widen(values), len(shape) == 3, n, shape[1])
		return nil
	})
}

// measure sets the figures of block i, whose factor is a diagonal or a square of n in rows of stride.
func (s *side) measure(i int, values []float64, square bool, n, stride int) {
	if !square {
		values = values[:n]
	} else if n < stride {
		trimmed := make([]float64, 0, n*n)
		for r := range n {
			trimmed = append(trimmed, values[r*stride:r*stride+n]...)
		}
		values = trimmed
	}
	for _, v := range values {
		s.squares[i] += v * v
		s.largest[i] = max(s.largest[i], math.Abs(v))
	}
	switch {
	case !finite(s.squares[i]):
		s.squares[i], s.largest[i], s.condition[i] = math.NaN(), math.NaN(), math.NaN()
	case square:
		s.condition[i] = condition(values, n)
	default:
		smallest := math.Inf(1)
		for _, v := range values {
			smallest = min(smallest, math.Abs(v))
		}
		s.condition[i] = s.largest[i] / smallest
	}
}

func (s *side) factor() Factor {
	sum := 0.0
	for _, v := range s.squares {
		sum += v
	}
	return Factor{Norm: train.Number(math.Sqrt(sum)), Condition: spread(s.condition), Lipschitz: spread(s.lipschitz)}
}

// health of block i: never refreshed, not finite, at an extreme scale.
func (s *side) health(i int) (never, broken, extreme bool) {
	broken = math.IsNaN(s.squares[i]) || !finite(s.lipschitz[i])
	return s.lipschitz[i] == 0, broken, !broken && (s.largest[i] < extremeLow || s.largest[i] > extremeHigh)
}

func widen(values []float32) []float64 {
	out := make([]float64, 0, len(values))
	for v := range slices.Values(values) {
		out = append(out, float64(v))
	}
	return out
}
