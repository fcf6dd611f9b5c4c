package optim

import (
	"math"

	"gputrain/buffers"
)

// Adam are the parameters of ScaleByAdam.
type Adam struct {
	B1         float64 `json:"b1" default:"0.9" range:"[0,1)" doc:"decay of the first moment"`
	B2         float64 `json:"b2" default:"0.999" range:"[0,1)" doc:"decay of the second moment"`
	Eps        float64 `json:"eps" default:"1e-8" range:"[0,inf)" doc:"added to the root of the second moment"`
	EpsRoot    float64 `json:"eps_root" range:"[0,inf)" doc:"added under the root"`
	MuDType    string  `json:"mu_dtype" default:"f32" range:"f32|bf16|" doc:"storage of the first moment: f32 or bf16"`
	StateDType string  `json:"state_dtype" default:"f32" range:"f32|8bit|" doc:"storage of both moments: f32, or 8bit for leaves of 4,096 elements or more"`
	Nesterov   bool    `json:"nesterov" doc:"Nesterov's form of the first moment"`

	B21D *float64 `json:"b2_1d" range:"[0,1)" doc:"decay of the second moment of vectors and scalars; null = b2"`

	uncorrected bool // both corrections are 1
}

// ScaleByAdam is optax.scale_by_adam. With n = t+1 the number of this update, counted from 1:
//
//	mu <- (1-b1) u + b1 mu
//	nu <- (1-b2) u² + b2 nu
//	m  =  mu/(1-b1ⁿ)                              nesterov: b1 mu/(1-b1ⁿ⁺¹) + (1-b1) u/(1-b1ⁿ)
//	v  =  nu/(1-b2ⁿ)
//	u  <- m / (sqrt(v + eps_root) + eps)          eps outside of the root, eps_root inside
//
// mu is rounded to MuDType only after its use; nu is f32 in both numerics. With a StateDType of 8bit both are in eight bits, rounded to nearest after
// their use (levels.go). Rounding of a bf16 mu is stochastic in
// Stable; in EFormer it is to nearest even, and b1 and the product b1 mu are rounded to bf16 as well. Leaves of fewer than two dimensions, one
// that is scanned not counted, have B21D in place of b2, if it is given. State: "mu", "nu".
func ScaleByAdam(o Adam, n Numerics) Transform {
	const name = "scale_by_adam"
	if err := checkRanges(&o); err != nil {
		return failed(name, "%w", err)
	}
	mu, nu, err := storages(o.MuDType, o.StateDType)
	if err != nil {
		return failed(name, "%w", err)
	}
	first := moment(mu, "b1", o.B1, n)
	correction := func(b float64, ahead int64) func(int64) float64 {
		return func(t int64) float64 {
			if o.uncorrected {
				return 1
			}
			return 1 - math.Pow(b, float64(t+1+ahead))
		}
	}
	e := Element{
		Name:  name,
		Slots: []Slot{first.slot, {Name: "nu", DType: nu, Unsigned: true}},
		Scalars: []Scalar{
			Fixed("b1", first.keep), Fixed("b1c", 1-o.B1), Fixed("b2", o.B2), Fixed("b2c", 1-o.B2),
			Fixed("eps", o.Eps), Fixed("eps_root", o.EpsRoot),
			{Name: "mu_correction", At: correction(o.B1, 0)},
			{Name: "nu_correction", At: correction(o.B2, 0)},
		},
		FLOPs: 14,
	}
	m := "$mu / $mu_correction"
	if o.Nesterov {
		e.Scalars = append(e.Scalars, Fixed("b1_exact", o.B1), Scalar{Name: "mu_correction_ahead", At: correction(o.B1, 1)})
		m = "$b1_exact * ($mu / $mu_correction_ahead) + $b1c * (u / $mu_correction)"
		e.FLOPs = 18
	}
	b2, b2c, corrected := "$b2", "$b2c", "$nu_correction"
	second := len(e.Scalars)
	if o.B21D != nil {
		e.columns = []column{{"flat", ofFewDimensions}}
		e.Scalars = append(e.Scalars, Fixed("b2_1d", *o.B21D), Fixed("b2c_1d", 1-*o.B21D), Scalar{Name: "nu_correction_1d", At: correction(*o.B21D, 0)})
		b2, b2c, corrected = "b2", "b2c", "nu_correction"
		e.WGSL = `let b2 = select($b2, $b2_1d, $flat != 0.0);
let b2c = select($b2c, $b2c_1d, $flat != 0.0);
let nu_correction = select($nu_correction, $nu_correction_1d, $flat != 0.0);
`
	}
	e.WGSL += "$mu = $b1c * u + " + first.product + `;
$nu = ` + b2c + " * (u * u) + " + b2 + ` * $nu;
let m = ` + m + `;
let v = $nu / ` + corrected + `;
u = m / (sqrt(v + $eps_root) + $eps);`
	e.Twin = func(c *Cell) {
		s, g := c.Scalars, c.U
		b1, b1c, b2, b2c, eps, epsRoot, corrected := s[0], s[1], s[2], s[3], s[4], s[5], s[7]
		if o.B21D != nil && c.columns[0] != 0 {
			b2, b2c, corrected = s[second], s[second+1], s[second+2]
		}
		mu := b1c*g + first.shrink(b1*c.Slots[0])
		nu := b2c*g*g + b2*c.Slots[1]
		m := mu / s[6]
		if o.Nesterov {
			m = s[8]*mu/s[9] + b1c*g/s[6]
		}
		c.Slots[0], c.Slots[1] = mu, nu
		c.U = m / (math.Sqrt(nu/corrected+epsRoot) + eps)
	}
	return Elementwise(e)
}

// ofFewDimensions is 1 for vectors and scalars.
func ofFewDimensions(leaves []buffers.Leaf, _ []string) ([]float32, error) {
	flat := make([]bool, len(leaves))
	for i, l := range leaves {
		dimensions := len(l.Shape)
		if l.Scanned { // the first axis counts leaves
			dimensions--
		}
		flat[i] = dimensions < 2
	}
	return asFloats(flat), nil
}
