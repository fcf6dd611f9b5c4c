package optim

import "math"

// Schedule is a learning rate as a pure function of the update index: 0 is the first update. Every schedule
// keeps its last value beyond its end and takes a negative index for 0.
type Schedule func(update int64) float64

// Constant is value at every update.
func Constant(value float64) Schedule { return func(int64) float64 { return value } }

// Linear goes from begin to end over steps updates.
func Linear(begin, end float64, steps int64) Schedule { return Polynomial(begin, end, 1, steps, 0) }

// Polynomial keeps begin for delay updates, then goes to end over steps updates:
//
//	(begin-end) (1-f)^power + end,  f = clip(t-delay, 0, steps)/steps
//
// With steps < 1 it is begin throughout, as in optax.
func Polynomial(begin, end, power float64, steps, delay int64) Schedule {
	if steps < 1 {
		return Constant(begin)
	}
	return func(t int64) float64 {
		f := float64(min(max(t-delay, 0), steps)) / float64(steps)
		return (begin-end)*math.Pow(1-f, power) + end
	}
}

// Cosine goes from begin to begin*alpha over steps updates:
//
//	begin ((1-alpha) (½ (1 + cos(π t/steps)))^exponent + alpha)
//
// With steps < 1 it is begin throughout.
func Cosine(begin float64, steps int64, alpha, exponent float64) Schedule {
	if steps < 1 {
		return Constant(begin)
	}
	return func(t int64) float64 {
		f := float64(min(max(t, 0), steps)) / float64(steps)
		return begin * ((1-alpha)*math.Pow(0.5*(1+math.Cos(math.Pi*f)), exponent) + alpha)
	}
}

// WarmupCosine goes linearly from begin to peak over warmup updates, then along a cosine to end; steps counts
// the warm-up too.
func WarmupCosine(begin, peak float64, warmup, steps int64, end, exponent float64) Schedule {
	alpha := 0.0
	if peak != 0 {
		alpha = end / peak
	}
	return Join([]Schedule{Linear(begin, peak, warmup), Cosine(peak, steps-warmup, alpha, exponent)}, []int64{warmup})
}

// warmupLinear goes linearly from begin to peak over warmup updates, then linearly to end; steps counts the
// warm-up too.
func warmupLinear(begin, peak float64, warmup, steps int64, end float64) Schedule {
	return Join([]Schedule{Linear(begin, peak, warmup), Linear(peak, end, steps-warmup)}, []int64{warmup})
}

// Power keeps peak until the last cooldown updates before steps, then goes to end:
//
//	end + (peak-end) x^exponent,  x = clip((steps-t)/cooldown, 0, 1)
//
// With cooldown < 1 it is peak throughout.
func Power(peak, end, exponent float64, cooldown, steps int64) Schedule {
	return Polynomial(peak, end, exponent, cooldown, steps-cooldown)
}

// Join runs schedules one after another: schedule i+1 begins, at its own index 0, with update boundaries[i].
// There is one boundary fewer than schedules and they increase; anything else is a bug of the caller.
func Join(schedules []Schedule, boundaries []int64) Schedule {
	if len(boundaries)+1 != len(schedules) {
		panic("optim: join: one boundary between two schedules wanted")
	}
	return func(t int64) float64 {
		begin := int64(0)
		for i, b := range boundaries {
			if t < b {
				return schedules[i](t - begin)
			}
			begin = b
		}
		return schedules[len(boundaries)](t - begin)
	}
}
