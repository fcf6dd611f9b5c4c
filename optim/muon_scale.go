package optim

import (
	"fmt"
	"math"

	"gputrain/buffers"
)

// muonOptions are the parameters of scaleByMuon. A ConsistentRMS of 0 is off.
type muonOptions struct {
	Coefficients       [3]float64 // a, b, c
	Steps              int
	Beta, Eps          float64
	MuDType            buffers.DType
	Nesterov, Adaptive bool
	ConsistentRMS      float64
	Even               float64 // decay of the second moment along the longer side; 0: none
	Numerics           Numerics

	inOut bool // whatever leaves say, they are [inputs, outputs]
}

// scaleByMuon is optax.contrib.scale_by_muon and scale_by_shape, for leaves of two dimensions only; Route sends it those. With n the number
// of this update, from 1:
//
//	mu <- (1-beta) u + beta mu
//	M  =  mu/(1-betaⁿ)                     nesterov: beta mu/(1-betaⁿ⁺¹) + (1-beta) u/(1-betaⁿ)
//	X  =  M / (|M| + eps)                  Frobenius norm; transposed where M has more rows than columns
//	X  <- a X + (b A + c A²) X             A = X Xᵀ; Steps times
//	X  <- <M, X> X                         adaptive
//	u  <- X sqrt(max(1, outputs/inputs))   consistent RMS: X consistent_rms sqrt(max(rows, columns))
//	v  <- b v + (1-b) mean(u²)             with Even, which is b; the mean over the shorter side (of a square one: the inputs)
//	p  =  u / sqrt(max(v, 1e-10));  u <- p |u| / max(|p|, 1e-10)
//
// mu is rounded to MuDType only after its use: stochastically in Stable; in EFormer to nearest even, and beta and its product with mu are
// rounded as well. Rows are inputs, and columns outputs, unless the leaf says otherwise (buffers.Spec.OutIn). State: "mu", "nu" for v.
func scaleByMuon(o muonOptions) Transform {
	const name = "scale_by_muon"
	if err := o.validate(); err != nil {
		return failed(name, "%w", err)
	}
	t := Chain(o.momentum(), Operate("orthogonalize", orthogonal{o}), o.shape())
	t.name = name
	return t
}

func (o muonOptions) validate() error {
	for _, x := range o.Coefficients {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("ns_coeffs: found %v, wanted finite numbers", o.Coefficients)
		}
	}
	if o.Steps < 1 || o.Steps > 100 {
		return fmt.Errorf("ns_steps: found %d, wanted 1 to 100", o.Steps)
	}
	if !(o.Eps >= 1e-15) || math.IsInf(o.Eps, 0) {
		return fmt.Errorf("eps: found %g, wanted 1e-15 or more: a momentum of zero is divided by it", o.Eps)
	}
	return firstError(inInterval("beta", o.Beta, "[0,1)"), inInterval("consistent_rms", o.ConsistentRMS, "[0,inf)"), inInterval("normuon_b2", o.Even, "[0,1)"), momentDType("mu_dtype", o.MuDType))
}

// momentum is the element before the operator.
func (o muonOptions) momentum() Transform {
	correction := func(ahead int64) func(int64) float64 {
		return func(t int64) float64 { return 1 - math.Pow(o.Beta, float64(t+1+ahead)) }
	}
	mu := moment(o.MuDType, "beta", o.Beta, o.Numerics)
	e := Element{
		Name: "momentum", Slots: []Slot{mu.slot}, FLOPs: 4,
		Scalars: []Scalar{Fixed("beta", mu.keep), Fixed("rest", 1-o.Beta), {Name: "correction", At: correction(0)}},
		WGSL:    "$mu = $rest * u + " + mu.product + ";\nu = $mu / $correction;",
	}
	if o.Nesterov {
		e.FLOPs = 8
		e.Scalars = append(e.Scalars, Fixed("exact", o.Beta), Scalar{Name: "correction_ahead", At: correction(1)})
		e.WGSL = "$mu = $rest * u + " + mu.product + ";\nu = $exact * ($mu / $correction_ahead) + $rest * (u / $correction);"
	}
	e.Twin = func(c *Cell) {
		s, g := c.Scalars, c.U
		c.Slots[0] = s[1]*g + mu.shrink(s[0]*c.Slots[0])
		c.U = c.Slots[0] / s[2]
		if o.Nesterov {
			c.U = s[3]*c.Slots[0]/s[4] + s[1]*g/s[2]
		}
	}
	return Elementwise(e)
}

// shape is the element after the operator.
func (o muonOptions) shape() Transform {
	return Elementwise(Element{
		Name: "scale_by_shape", FLOPs: 1,
		columns: []column{{"factor", func(leaves []buffers.Leaf, _ []string) ([]float32, error) {
			factors := make([]float32, len(leaves))
			for i, l := range leaves {
				if len(l.Shape) == 2 && l.Elements() > 0 {
					factors[i] = float32(o.size(l))
				}
			}
			return factors, nil
		}}},
		WGSL: "u = u * $factor;",
		Twin: func(c *Cell) { c.U *= c.columns[0] },
	})
}

// size is what the orthogonal update of a matrix is multiplied by.
func (o muonOptions) size(l buffers.Leaf) float64 {
	inputs, outputs := float64(l.Shape[0]), float64(l.Shape[1])
	if l.OutIn && !o.inOut {
		inputs, outputs = outputs, inputs
	}
	if o.ConsistentRMS > 0 {
		return o.ConsistentRMS * math.Sqrt(max(inputs, outputs))
	}
	return math.Sqrt(max(1, outputs/inputs))
}

// longRows tells that the longer side of a matrix is its rows. Of a square one that is the outputs: the rows, unless the model says otherwise.
func longRows(l buffers.Leaf) bool {
	return l.Shape[0] > l.Shape[1] || l.Shape[0] == l.Shape[1] && !l.InOut
}
