package optim

import (
	"math"

	"gputrain/buffers"
)

func init() {
	builtin(Optimizer{
		Name: "rmsprop", Doc: "RMSProp: gradients over a running root mean square, with optional momentum", Rate: 0.001,
		New:   func() Parameters { return new(RMSProp) },
		Small: `{"momentum":0.9}`,
	})
}

// RMSProp are the parameters of optax.rmsprop, with the defaults of eformer's configuration, and optax's where it has none; see ScaleByRMS for
// the equations.
type RMSProp struct {
	Decay          float64  `json:"decay" default:"0.9" range:"[0,1)" doc:"decay of the mean square"`
	InitialScale   float64  `json:"initial_scale" range:"[0,inf)" doc:"mean square before the first update"`
	Momentum       *float64 `json:"momentum" range:"[0,1)" doc:"decay of a trace of updates, rate included; null = none and no state"`
	Nesterov       bool     `json:"nesterov" doc:"Nesterov's form of the momentum"`
	Eps            float64  `json:"eps" default:"1e-8" range:"[0,inf)" doc:"added to the mean square"`
	EpsInSqrt      bool     `json:"eps_in_sqrt" default:"true" doc:"add eps under the root; false: to the root, as torch does"`
	Centered       bool     `json:"centered" doc:"divide by the standard deviation: subtract the squared mean"`
	BiasCorrection bool     `json:"bias_correction" doc:"correct mean square and mean for their start"`
}

// ScaleByRMS is optax.scale_by_rms, or with Centered optax.scale_by_stddev. With n the number of this update, from 1:
//
//	mean <- (1-decay) u + decay mean                 centered
//	nu   <- (1-decay) u² + decay nu                  initial_scale before the first update
//	m, v =  mean, nu                                 bias correction: both over 1-decayⁿ
//	v    =  max(v - m², 0)                           centered
//	u    <- u / sqrt(v + eps)                        eps outside: u / (sqrt(v) + eps)
//
// The momentum is none of it. State: "nu", and with Centered "mean" before it.
func ScaleByRMS(o RMSProp) Transform {
	const name = "scale_by_rms"
	if err := checkRanges(&o); err != nil {
		return failed(name, "%w", err)
	}
	if o.Momentum != nil {
		return failed(name, "momentum: found %g, wanted none: it is that of updates, Trace behind the rate", *o.Momentum)
	}
	e := Element{
		Name: name, FLOPs: 7,
		Slots:   []Slot{{Name: "nu", DType: buffers.F32, Initial: o.InitialScale}},
		Scalars: []Scalar{Fixed("decay", o.Decay), Fixed("rest", 1-o.Decay), Fixed("eps", o.Eps)},
	}
	correct, root := "", "u = u / sqrt(v + $eps);"
	if o.BiasCorrection {
		e.Scalars = append(e.Scalars, Scalar{Name: "correction", At: func(t int64) float64 { return 1 - math.Pow(o.Decay, float64(t+1)) }})
		correct = " / $correction"
		e.FLOPs++
	}
	if !o.EpsInSqrt {
		root = "u = u / (sqrt(v) + $eps);"
	}
	e.WGSL = "$nu = $rest * (u * u) + $decay * $nu;\nvar v = $nu" + correct + ";\n" + root
	if o.Centered {
		e.Slots = append([]Slot{{Name: "mean", DType: buffers.F32}}, e.Slots...)
		e.WGSL = "$mean = $rest * u + $decay * $mean;\n$nu = $rest * (u * u) + $decay * $nu;\nlet m = $mean" + correct + `;
var v = $nu` + correct + ` - m * m;
v = select(vec4<f32>(0.0), v, v > vec4<f32>(0.0));
` + root
		e.FLOPs += 6
	}
	last := len(e.Slots) - 1
	e.Twin = func(c *Cell) {
		decay, rest, eps, correction := c.Scalars[0], c.Scalars[1], c.Scalars[2], 1.0
		if o.BiasCorrection {
			correction = c.Scalars[3]
		}
		c.Slots[last] = rest*c.U*c.U + decay*c.Slots[last]
		v := c.Slots[last] / correction
		if o.Centered {
			c.Slots[0] = rest*c.U + decay*c.Slots[0]
			m := c.Slots[0] / correction
			v = max(v-m*m, 0)
		}
		if o.EpsInSqrt {
			c.U /= math.Sqrt(v + eps)
		} else {
			c.U /= math.Sqrt(v) + eps
		}
	}
	return Elementwise(e)
}

// Transform is chain(scale_by_rms, scale_by_learning_rate, trace): the trace holds updates with the rates of their time.
func (c *RMSProp) Transform(lr Schedule, o Options) (Transform, error) {
	scale := *c
	scale.Momentum = nil
	parts := []Transform{ScaleByRMS(scale), ScaleByLearningRate(lr, o.Rates...)}
	if c.Momentum != nil {
		parts = append(parts, Trace(*c.Momentum, c.Nesterov))
	}
	t := Chain(parts...)
	return t, t.err
}
