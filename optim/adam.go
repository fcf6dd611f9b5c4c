package optim

import "math"

// Adam are the parameters of ScaleByAdam.
type Adam struct {
	B1         float64 `json:"b1" default:"0.9" range:"[0,1)" doc:"decay of the first moment"`
	B2         float64 `json:"b2" default:"0.999" range:"[0,1)" doc:"decay of the second moment"`
	Eps        float64 `json:"eps" default:"1e-8" range:"[0,inf)" doc:"added to the root of the second moment"`
	EpsRoot    float64 `json:"eps_root" range:"[0,inf)" doc:"added under the root"`
	MuDType    string  `json:"mu_dtype" default:"f32" range:"f32|bf16|" doc:"storage of the first moment: f32 or bf16"`
	StateDType string  `json:"state_dtype" default:"f32" range:"f32|8bit|" doc:"storage of both moments: f32, or 8bit for leaves of 4,096 elements or more"`
	Nesterov   bool    `json:"nesterov" doc:"Nesterov's form of the first moment"`
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
// Stable; in EFormer it is to nearest even, and b1 and the product b1 mu are rounded to bf16 as well.
// State: "mu", "nu".
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
		return func(t int64) float64 { return 1 - math.Pow(b, float64(t+1+ahead)) }
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
	e.WGSL = "$mu = $b1c * u + " + first.product + `;
$nu = $b2c * (u * u) + $b2 * $nu;
let m = ` + m + `;
let v = $nu / $nu_correction;
u = m / (sqrt(v + $eps_root) + $eps);`
	e.Twin = func(c *Cell) {
		s, g := c.Scalars, c.U
		b1, b1c, b2, b2c, eps, epsRoot := s[0], s[1], s[2], s[3], s[4], s[5]
		mu := b1c*g + first.shrink(b1*c.Slots[0])
		nu := b2c*g*g + b2*c.Slots[1]
		m := mu / s[6]
		if o.Nesterov {
			m = s[8]*mu/s[9] + b1c*g/s[6]
		}
		c.Slots[0], c.Slots[1] = mu, nu
		c.U = m / (math.Sqrt(nu/s[7]+epsRoot) + eps)
	}
	return Elementwise(e)
}
