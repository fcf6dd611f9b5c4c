package optim

import (
	"math"

	"gputrain/buffers"
)

func init() {
	builtin(Optimizer{
		Name: "rmsprop", Doc: "RMSProp: gradients over a running root mean square, with momentum where asked for", Rate: 0.001,
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
	e := element{
		name: name, flops: 7,
		slots:   []slot{{name: "nu", dtype: buffers.F32, initial: o.InitialScale}},
		scalars: []scalar{fixed("decay", o.Decay), fixed("rest", 1-o.Decay), fixed("eps", o.Eps)},
	}
	correct, root := "", "u = u / sqrt(v + $eps);"
	if o.BiasCorrection {
		e.scalars = append(e.scalars, scalar{name: "correction", at: func(t int64) float64 { return 1 - math.Pow(o.Decay, float64(t+1)) }})
		correct = " / $correction"
		e.flops++
	}
	if !o.EpsInSqrt {
		root = "u = u / (sqrt(v) + $eps);"
	}
	e.wgsl = "$nu = $rest * (u * u) + $decay * $nu;\nvar v = $nu" + correct + ";\n" + root
	if o.Centered {
		e.slots = append([]slot{{name: "mean", dtype: buffers.F32}}, e.slots...)
		e.wgsl = "$mean = $rest * u + $decay * $mean;\n$nu = $rest * (u * u) + $decay * $nu;\nlet m = $mean" + correct + `;
var v = $nu` + correct + ` - m * m;
v = select(vec4<f32>(0.0), v, v > vec4<f32>(0.0));
` + root
		e.flops += 6
	}
	last := len(e.slots) - 1
	e.twin = func(c *cell) {
		decay, rest, eps, correction := c.scalars[0], c.scalars[1], c.scalars[2], 1.0
		if o.BiasCorrection {
			correction = c.scalars[3]
		}
		c.slots[last] = rest*c.u*c.u + decay*c.slots[last]
		v := c.slots[last] / correction
		if o.Centered {
			c.slots[0] = rest*c.u + decay*c.slots[0]
			m := c.slots[0] / correction
			v = max(v-m*m, 0)
		}
		if o.EpsInSqrt {
			c.u /= math.Sqrt(v + eps)
		} else {
			c.u /= math.Sqrt(v) + eps
		}
	}
	return single(e)
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
