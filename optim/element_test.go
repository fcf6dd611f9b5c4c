package optim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// adaBelief is what a program that embeds the packages brings with it: parameters, equation, twin. Since it is registered, the contracts of
// every optimizer and the checks of gputrain doctor hold it too.
type adaBelief struct {
	B1  float64 `json:"b1" default:"0.9" range:"[0,1)" doc:"decay of the mean"`
	B2  float64 `json:"b2" default:"0.99" range:"[0,1)" doc:"decay of the squared distance from it"`
	Eps float64 `json:"eps" default:"1e-8" range:"(0,inf)" doc:"added to the root"`
}

func init() {
	err := Register(Optimizer{
		Name: "adabelief", Doc: "Adam on the gradient's distance from its mean", Rate: 0.001,
		New: func() Parameters { return new(adaBelief) },
	})
	if err != nil {
		panic(err)
	}
}

func (c *adaBelief) Transform(lr Schedule, o Options) (Transform, error) {
	return Chain(c.scale(), ScaleByLearningRate(lr, o.Rates...)), nil
}

// scale is, with n the number of this update, from 1:
//
//	mu <- (1-b1) u + b1 mu
//	s  <- (1-b2) (u - mu)² + b2 s
//	u  <- mu/(1-b1ⁿ) / (sqrt(s/(1-b2ⁿ)) + eps)
func (c *adaBelief) scale() Transform {
	correction := func(b float64) func(int64) float64 {
		return func(t int64) float64 { return 1 - math.Pow(b, float64(t+1)) }
	}
	return Elementwise(Element{
		Name: "scale_by_belief", FLOPs: 14,
		Slots: []Slot{{Name: "mu", DType: buffers.F32}, {Name: "s", DType: buffers.F32}},
		Scalars: []Scalar{
			Fixed("b1", c.B1), Fixed("b2", c.B2), Fixed("eps", c.Eps),
			{Name: "mu_correction", At: correction(c.B1)},
			{Name: "s_correction", At: correction(c.B2)},
		},
		WGSL: `$mu = (1.0 - $b1) * u + $b1 * $mu;
let far = u - $mu;
$s = (1.0 - $b2) * (far * far) + $b2 * $s;
u = ($mu / $mu_correction) / (sqrt($s / $s_correction) + $eps);`,
		Twin: func(x *Cell) {
			b1, b2, eps := x.Scalars[0], x.Scalars[1], x.Scalars[2]
			x.Slots[0] = (1-b1)*x.U + b1*x.Slots[0]
			far := x.U - x.Slots[0]
			x.Slots[1] = (1-b2)*far*far + b2*x.Slots[1]
			x.U = x.Slots[0] / x.Scalars[3] / (math.Sqrt(x.Slots[1]/x.Scalars[4]) + eps)
		},
	})
}

func TestAnOptimizerFromOutside(t *testing.T) {
	clip := 1.0
	o := Options{Schedule: rate(0.05), ClipGrad: &clip, WeightDecay: 0.1, WeightDecayMask: MaskMatrices(), AccumulationSteps: 2, SkipNonFinite: true}
	tx := built(t, "adabelief", o, `{"b2":0.95}`)
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		followTwin(t, d, tx, oddSpecs, 6, tolerance{1e-5, 1e-5}, tolerance{1e-5, 1e-5})
	}, small)
	// Two slots and the accumulation.
	assert.Equal(t, 8.0+4, tx.Cost().StateBytes)
	// By hand: mu = 0.4, s = 0.01·3.6², both corrected: 4 and 3.6.
	assert.InDelta(t, 10+4/3.6, after(t, (&adaBelief{B1: 0.9, B2: 0.99}).scale(), 10, 4), 1e-5)
	_, err := Build("adabelief", Options{}, []byte(`{"eps":0}`))
	assert.ErrorContains(t, err, "optim: adabelief: parameters: eps: found 0, wanted more than 0")
	c, err := ParseConfig([]byte(`{"name":"adabelief"}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"b1":0.9,"b2":0.99,"eps":1e-8}`, string(c.Parameters))
}

// Norms and sums over leaves are the same on both sides.
func TestAnElementMayAskForNorms(t *testing.T) {
	relative := Elementwise(Element{
		Name: "relative", FLOPs: 3,
		WGSL: "u = select(u / $norm * sqrt($leaf_squares) * sqrt($param_squares) / $leaf_elements, vec4<f32>(0.0), $bad) + 0.0 * $p;",
		Twin: func(c *Cell) {
			c.U = c.U / c.Norm * math.Sqrt(c.LeafSquares) * math.Sqrt(c.ParamSquares) / c.LeafElements
		},
	})
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		followTwin(t, d, relative, oddSpecs[1:], 3, tolerance{5e-6, 5e-6}, tolerance{5e-6, 5e-6})
	}, small)
}

func TestElementsAreRefused(t *testing.T) {
	twin := func(*Cell) {}
	slot := func(s Slot) Element {
		return Element{Name: "odd", Slots: []Slot{s}, WGSL: "u = u;", Twin: twin}
	}
	for want, e := range map[string]Element{
		`found the name "", wanted lower case`:                             {WGSL: "u = u;", Twin: twin},
		`found the name "a b", wanted lower case`:                          {Name: "a b", WGSL: "u = u;", Twin: twin},
		`odd: wgsl: found $nothing, wanted a slot, a scalar or one of [p `: {Name: "odd", WGSL: "u = $nothing;", Twin: twin},
		`odd: equation: found none`:                                        {Name: "odd", WGSL: "u = u;"},
		`odd: equation: found none or one`:                                 {Name: "odd", Twin: twin},
		`odd: slot: found the name "norm"`:                                 slot(Slot{Name: "norm"}),
		`odd: slot: found the name "Mu"`:                                   slot(Slot{Name: "Mu"}),
		`odd: slot: found the name "total", wanted one that is no variab`:  slot(Slot{Name: "total"}),
		`odd: slot: found the name "mu_data"`:                              slot(Slot{Name: "mu_data"}),
		`odd: slot mu: found u32, wanted f32, bf16 or u8`:                  slot(Slot{Name: "mu", DType: buffers.U32}),
		`odd: slot mu: found stochastic rounding of f32`:                   slot(Slot{Name: "mu", Dither: true}),
		`odd: slot mu: found the initial value +Inf`:                       slot(Slot{Name: "mu", Initial: math.Inf(1)}),
		`odd: scalar: found the name "mu"`: {
			Name: "odd", Slots: []Slot{{Name: "mu"}}, Scalars: []Scalar{Fixed("mu", 1)}, WGSL: "u = u;", Twin: twin,
		},
		`odd: scalar x: found no function`: {Name: "odd", Scalars: []Scalar{{Name: "x"}}, WGSL: "u = u;", Twin: twin},
	} {
		assert.ErrorContains(t, Elementwise(e).Check(nil), want)
	}
}
