package optim

import (
	"math"

	"gputrain/buffers"
)

func init() {
	builtin(Optimizer{
		Name: "rmsprop", Doc: "RMSProp: gradients over a running root mean square, with momentum where asked for", Rate: 0.001,
		New:   func() Parameters { c := DefaultRMSProp(); return &c },
		Small: `{"momentum":0.9}`,
	})
}

// RMSOptions are the parameters of ScaleByRMS. The zero values of InitialScale and of all flags are optax's defaults.
type RMSOptions struct {
	Decay, Eps, InitialScale float64
	EpsOutside               bool // of the root; optax's eps_in_sqrt = False
	Centered, BiasCorrection bool
}

// ScaleByRMS is optax.scale_by_rms, or with Centered optax.scale_by_stddev. With n the number of this update, from 1:
//
//	mean <- (1-decay) u + decay mean                 centered
//	nu   <- (1-decay) u² + decay nu                  initial_scale before the first update
//	m, v =  mean, nu                                 bias correction: both over 1-decayⁿ
//	v    =  max(v - m², 0)                           centered
//	u    <- u / sqrt(v + eps)                        eps outside: u / (sqrt(v) + eps)
//
// State: "nu", and with Centered "mean" before it.
func ScaleByRMS(o RMSOptions) Transform {
	const name = "scale_by_rms"
	if err := firstError(decayRate("decay", o.Decay), notNegative("eps", o.Eps), notNegative("initial_scale", o.InitialScale)); err != nil {
		return failed(name, "%w", err)
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
	if o.EpsOutside {
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
		if o.EpsOutside {
			c.u /= math.Sqrt(v) + eps
		} else {
			c.u /= math.Sqrt(v + eps)
		}
	}
	return single(e)
}

// RMSPropConfig are the parameters of RMSProp; see ScaleByRMS for the equations.
type RMSPropConfig struct {
	Decay          float64  `json:"decay" doc:"decay of the mean square"`
	InitialScale   float64  `json:"initial_scale" doc:"mean square before the first update"`
	Momentum       *float64 `json:"momentum" doc:"decay of a trace of updates, rate included; null = none and no state"`
	Nesterov       bool     `json:"nesterov" doc:"Nesterov's form of the momentum"`
	Eps            float64  `json:"eps" doc:"added to the mean square"`
	EpsInSqrt      bool     `json:"eps_in_sqrt" doc:"add eps under the root; false: to the root, as torch does"`
	Centered       bool     `json:"centered" doc:"divide by the standard deviation: subtract the squared mean"`
	BiasCorrection bool     `json:"bias_correction" doc:"correct mean square and mean for their start"`
}

// DefaultRMSProp is what eformer's configuration has, and optax's defaults where it has none.
func DefaultRMSProp() RMSPropConfig { return RMSPropConfig{Decay: 0.9, Eps: 1e-8, EpsInSqrt: true} }

// RMSProp is the optimizer of optax.rmsprop, with what Options adds around it.
func RMSProp(c RMSPropConfig, o Options) (Transform, error) { return build("rmsprop", &c, o) }

// Transform is chain(scale_by_rms, scale_by_learning_rate, trace): the trace holds updates with the rates of their time.
func (c *RMSPropConfig) Transform(lr Schedule, o Options) (Transform, error) {
	parts := []Transform{
		ScaleByRMS(RMSOptions{
			Decay: c.Decay, Eps: c.Eps, InitialScale: c.InitialScale, EpsOutside: !c.EpsInSqrt, Centered: c.Centered, BiasCorrection: c.BiasCorrection,
		}),
		ScaleByLearningRate(lr, o.Rates...),
	}
	if c.Momentum != nil {
		if err := decayRate("momentum", *c.Momentum); err != nil {
			return Transform{}, err
		}
		parts = append(parts, Trace(*c.Momentum, c.Nesterov))
	}
	t := Chain(parts...)
	return t, t.err
}
