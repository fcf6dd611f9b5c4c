package optim

import (
	"fmt"
	"math"

	"gputrain/buffers"
)

// FactoredRMSOptions are the parameters of ScaleByFactoredRMS.
type FactoredRMSOptions struct {
	MinDimSizeToFactor int
	DecayRate, Eps     float64
	DecayOffset        int64
	Unfactored         bool // factor no leaf
}

// ScaleByFactoredRMS is optax.scale_by_factored_rms. With n the number of this update, from 1, beta = 1 - (n - decay_offset)^-decay_rate:
//
//	G     =  u² + eps
//	v_row <- beta v_row + (1-beta) mean G over the largest axis
//	v_col <- beta v_col + (1-beta) mean G over the second largest axis
//	u     <- u (v_row / mean v_row over the second largest axis)^-½ v_col^-½
//
// for leaves whose second largest side is at least min_dim_size_to_factor; of equal sides the later one counts as larger, and the other
// axes stay apart in means. For the other leaves
//
//	v <- beta v + (1-beta) G
//	u <- u v^-½
//
// State: "v_row" and "v_col", a number for each of the sums, or "v"; all f32.
func ScaleByFactoredRMS(o FactoredRMSOptions) Transform {
	const name = "scale_by_factored_rms"
	if err := o.validate(); err != nil {
		return failed(name, "%w", err)
	}
	whole := Elementwise(Element{
		Name: "scale_by_whole_rms", FLOPs: 6,
		Slots:   []Slot{{Name: "v", DType: buffers.F32}},
		Scalars: []Scalar{{Name: "beta", At: func(t int64) float64 { return 1 - o.rest(t) }}, {Name: "rest", At: o.rest}, Fixed("eps", o.Eps)},
		WGSL:    "$v = $beta * $v + $rest * (u * u + $eps);\nu = u / sqrt($v);",
		Twin: func(c *Cell) {
			c.Slots[0] = c.Scalars[0]*c.Slots[0] + c.Scalars[1]*(c.U*c.U+c.Scalars[2])
			c.U /= math.Sqrt(c.Slots[0])
		},
	})
	if o.Unfactored {
		whole.name = name
		return whole
	}
	large := &Mask{choose: func(l buffers.Leaf) bool { return o.factors(l.Shape) }}
	t := Route(large, Operate(name, factoredRMS{FactoredRMSOptions: o}), whole)
	t.name = name
	return t
}

func (o FactoredRMSOptions) validate() error {
	if !(o.DecayRate > 0 && o.DecayRate <= 1) {
		return fmt.Errorf("decay_rate: found %g, wanted more than 0, at most 1", o.DecayRate)
	}
	if o.DecayOffset > 0 {
		return fmt.Errorf("decay_offset: found %d, wanted at most 0: the first updates would have no decay, only NaN", o.DecayOffset)
	}
	if !(o.Eps >= 1e-30) || math.IsInf(o.Eps, 0) {
		return fmt.Errorf("eps: found %g, wanted 1e-30 or more: a gradient of zero is divided by its root", o.Eps)
	}
	return nil
}

// rest is 1 - beta of update t, counted from 0.
func (o FactoredRMSOptions) rest(t int64) float64 {
	return math.Pow(float64(t+1-o.DecayOffset), -o.DecayRate)
}

// factors tells whether a leaf of that shape is factored; one without elements is not.
func (o FactoredRMSOptions) factors(shape []int) bool {
	if len(shape) < 2 || (buffers.Leaf{Shape: shape}).Elements() == 0 {
		return false
	}
	_, second := largestAxes(shape)
	return shape[second] >= o.MinDimSizeToFactor
}

// largestAxes finds the largest and the second largest side; of equal ones the later is the larger.
func largestAxes(shape []int) (first, second int) {
	first, second = 1, 0
	if shape[0] > shape[1] {
		first, second = 0, 1
	}
	for axis := 2; axis < len(shape); axis++ {
		switch {
		case shape[axis] >= shape[first]:
			first, second = axis, first
		case shape[axis] >= shape[second]:
			second = axis
		}
	}
	return first, second
}

// scaleByParamBlockRMS multiplies each leaf's update by the root mean square of its parameter (optax.scale_by_param_block_rms):
//
//	u <- u max(RMS(p), least)
func scaleByParamBlockRMS(least float64) Transform {
	const name = "scale_by_param_block_rms"
	if err := inInterval("least", least, "[0,inf)"); err != nil {
		return failed(name, "%w", err)
	}
	return Elementwise(Element{
		Name: name, Scalars: []Scalar{Fixed("least", least)}, FLOPs: 1,
		WGSL: "u = u * max(sqrt($param_squares / $leaf_elements), $least);",
		Twin: func(c *Cell) { c.U *= max(math.Sqrt(c.ParamSquares/c.LeafElements), c.Scalars[0]) },
	})
}
