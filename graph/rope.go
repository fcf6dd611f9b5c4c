package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// Rope is the rotary position embedding of x [B,T,H HeadDim]: in each head the pair (x[i], x[i+HeadDim/2]) is turned by the
// angle t Theta^(-2i/HeadDim), t the index on axis 1; Inverse turns back, which is its gradient. With a Window there is a second input,
// positions i32 [B,T], each from 0 to Window-1, and t is the position. Frequencies take the place of Theta: the pair (x[i], x[i+len(Frequencies)])
// is turned by t Frequencies[i], and what is behind the pairs of a head stays. With a Factor, turned pairs, either way, are multiplied by it.
type Rope struct {
	HeadDim     int       `json:"head_dim"`
	Theta       float64   `json:"theta"`
	Inverse     bool      `json:"inverse,omitempty"`
	Window      int       `json:"window,omitempty"`
	Frequencies []float64 `json:"frequencies,omitempty"` // radians a position
	Factor      float64   `json:"factor,omitempty"`      // 0: 1
	Grow        float64   `json:"grow,omitempty"`        // position t is multiplied by 1 + Grow ln(1 + floor(t/Every)) besides
	Every       float64   `json:"every,omitempty"`
}

func (Rope) Kind() string { return "rope" }

func (o Rope) Infer(in []*Value) ([]Type, error) {
	inputs := 1
	if o.Window > 0 {
		inputs = 2
	}
	if err := arity(in, inputs, 1); err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	x := in[0].Shape()
	if len(x) != 3 || x[2]%o.HeadDim != 0 {
		return nil, fmt.Errorf("x has shape %v, want [batch time heads*%d]", x, o.HeadDim)
	}
	if o.Window > 0 {
		if err := cmp.Or(wantDType("positions", in[1], array.I32), wantShape("positions", in[1], x[0], x[1])); err != nil {
			return nil, err
		}
	}
	return []Type{F32(x...)}, nil
}

func (o Rope) validate() error {
	if !(o.Factor >= 0) || math.IsInf(o.Factor, 0) {
		return fmt.Errorf("factor %g: want it finite and not negative", o.Factor)
	}
	if o.Grow != 0 && (!(o.Every >= 1) || !(math.Abs(o.Grow) <= math.MaxFloat64) || math.IsInf(o.Every, 0)) {
		return fmt.Errorf("grow %g, every %g: want both finite, and every at least 1", o.Grow, o.Every)
	}
	if len(o.Frequencies) == 0 {
		if o.HeadDim < 2 || o.HeadDim%2 != 0 || !(o.Theta > 0) || math.IsInf(o.Theta, 0) {
			return fmt.Errorf("head dim %d, theta %g: want an even head dim and theta above 0", o.HeadDim, o.Theta)
		}
		return nil
	}
	if o.Theta != 0 || 2*len(o.Frequencies) > o.HeadDim {
		return fmt.Errorf("head dim %d, %d frequencies, theta %g: want at most half of the head dim, and no theta beside them", o.HeadDim, len(o.Frequencies), o.Theta)
	}
	for i, f := range o.Frequencies {
		if !(math.Abs(f) <= math.MaxFloat64) {
			return fmt.Errorf("frequency %d: %g, want it finite", i, f)
		}
	}
	return nil
}

// Angles are those of the pairs of a head at position 1.
func (o Rope) Angles() []float64 {
	if len(o.Frequencies) > 0 {
		return o.Frequencies
	}
	angles := make([]float64, o.HeadDim/2)
	for i := range angles {
		angles[i] = math.Pow(o.Theta, -2*float64(i)/float64(o.HeadDim))
	}
	return angles
}

// FactorAt is what the pairs of a position are multiplied by.
func (o Rope) FactorAt(position float64) float64 {
	factor := cmp.Or(o.Factor, 1)
	if o.Grow == 0 {
		return factor
	}
	return factor * (1 + o.Grow*math.Log1p(math.Floor(position/o.Every)))
}

// FLOPs is 3 an element.
func (Rope) FLOPs(n *Node) int64 { return 3 * int64(n.Outputs[0].typ.Elements()) }

// Gradient turns the other way.
func (o Rope) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	o.Inverse = !o.Inverse
	dx := make([]*Value, len(n.Inputs)) // positions have none
	dx[0] = g.one(o, append(slices.Clone(dy[:1]), n.Inputs[1:]...)...)
	return dx
}

// Eval is the definition.
func (o Rope) Eval(n *Node, in []*Array, e *Env) []*Array {
	x := in[0]
	y := &Array{Shape: x.Shape, Data: slices.Clone(x.Data)}
	angles := o.Angles()
	for base := 0; base < len(x.Data); base += o.HeadDim {
		row := base / x.Shape[2]
		time := float64(row % x.Shape[1])
		if o.Window > 0 {
			if time = in[1].Data[row]; !e.inRange(n, "position", row, time, o.Window) {
				return nil
			}
		}
		factor := o.FactorAt(time)
		for i, angle := range angles {
			angle *= time
			if o.Inverse {
				angle = -angle
			}
			sin, cos := math.Sincos(angle)
			low, high := base+i, base+len(angles)+i
			u, v := x.Data[low], x.Data[high]
			y.Data[low], y.Data[high] = factor*(u*cos-v*sin), factor*(v*cos+u*sin)
		}
	}
	return []*Array{y}
}
