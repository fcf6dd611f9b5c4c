package optim

import "gputrain/buffers"

// Accumulate collects the gradients of k calls and gives their mean to inner on the k-th (optax.MultiSteps):
//
//	acc <- acc + (g - acc)/(i+1)      i = 0 .. k-1
//	on call k: inner updates with acc, and acc is stored as exact zeros, whatever it held
//
// inner's state and counts stand still on the other calls. State: "acc", always f32; count: "mini_step".
// A trainer that submits prebuilt programs makes one for each of State.Phases and submits the one that
// State.Prepare names.
func Accumulate(k int, inner Transform) Transform {
	if inner.err != nil {
		return inner
	}
	if k < 1 {
		return failed("accumulate", "calls an update: found %d, wanted 1 or more", k)
	}
	if inner.accumulate > 1 {
		return failed("accumulate", "inner: found %s, wanted no accumulation inside an accumulation", inner.name)
	}
	if k == 1 {
		return inner
	}
	inner.name = "accumulate(" + inner.name + ")"
	inner.accumulate = k
	return inner
}

// collector is the element in front of a chain that accumulates; its count is the index of the call.
func collector(k int) Element {
	return Element{
		Name: "accumulate", Slots: []Slot{{Name: "acc", DType: buffers.F32}}, FLOPs: 3,
		Scalars: []Scalar{{Name: "calls", At: func(i int64) float64 { return float64(min(i, int64(k-1)) + 1) }}},
		WGSL:    collect + "u = $acc;\n$acc = vec4<f32>(0.0);",
		Twin: func(c *Cell) {
			c.U = c.Slots[0] + (c.U-c.Slots[0])/c.Scalars[0]
			c.Slots[0] = 0
		},
	}
}

// collect is all that the calls before the last one do.
const collect = "$acc = $acc + (u - $acc) / $calls;\n"

// SkipNonFinite lets nothing change, neither params nor state, on an update whose gradient (the mean, where
// inside Accumulate) has an element that is infinite or not a number; Statistics counts these updates on the device. Counts go
// on: rate and bias correction are functions of the index of the update, skipped or not. A window of accumulation
// with such an element is dropped whole. It goes around a chain, and into Accumulate.
func SkipNonFinite(inner Transform) Transform {
	if inner.err != nil {
		return inner
	}
	if inner.accumulate > 1 {
		return failed("skip_non_finite", "inner: found %s, wanted accumulate(skip_non_finite(...))", inner.name)
	}
	inner.name = "skip_non_finite(" + inner.name + ")"
	inner.skip = true
	return inner
}
