package partition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
)

// randomUnits have whole numbers for everything, so that sums are exact and there are ties.
func randomUnits(rng *rand.Rand, n int) []Unit {
	units := make([]Unit, n)
	for i := range units {
		units[i] = Unit{Name: fmt.Sprint("u", i), Params: []string{fmt.Sprintf("h.%d.w", i)}, FLOPs: rng.Int64N(20), Activation: rng.Uint64N(6), Memory: 1 + rng.Uint64N(9)}
	}
	units[n-1].Activation = 0
	return units
}

func randomPower(rng *rand.Rand, stages int, memory uint64) []Power {
	power := make([]Power, stages)
	for i := range power {
		power[i] = Power{Speed: gpu.Speed{FLOPS: float64(int(1) << rng.IntN(3)), BytesPerSecond: float64(int(1) << rng.IntN(3))}}
		if memory > 0 && rng.IntN(2) == 0 {
			power[i].Memory = memory + rng.Uint64N(memory)
		}
	}
	return power
}

// everyCut calls f with the ends of each way to divide n units into parts.
func everyCut(n, parts int, f func(ends []int)) {
	var extend func(ends []int, last int)
	extend = func(ends []int, last int) {
		if len(ends) == parts-1 {
			f(append(slices.Clone(ends), n))
			return
		}
		for e := last + 1; e <= n-(parts-1-len(ends)); e++ {
			extend(append(ends, e), e)
		}
	}
	extend(nil, 0)
}

// slowestStage is the time of the slowest stage.
func slowestStage(units []Unit, ends []int, power []Power) (slowest float64, ok bool) {
	times, ok := stageTimes(units, ends, power)
	return slices.Max(times), ok
}

// stageTimes are the times by the definition: three passes of work, each activation at the part's two ends there and its gradient back. ok
// tells whether no stage has more than its memory.
func stageTimes(units []Unit, ends []int, power []Power) (times []float64, ok bool) {
	times, bytes := make([]float64, len(power)), make([]uint64, len(power))
	part := 0
	for i, u := range units {
		if i == ends[part] {
			part++
			times[part%len(power)] += 2 * float64(units[i-1].Activation) / power[part%len(power)].BytesPerSecond
		}
		s := part % len(power)
		times[s] += 3 * float64(u.FLOPs) / power[s].FLOPS
		bytes[s] += u.Memory
		if i+1 == ends[part] {
			times[s] += 2 * float64(u.Activation) / power[s].BytesPerSecond
		}
	}
	for s, p := range power {
		if p.Memory > 0 && bytes[s] > p.Memory {
			return times, false
		}
	}
	return times, true
}

// squares is small where times are even.
func squares(times []float64) (sum float64) {
	for _, t := range times {
		sum += t * t
	}
	return sum
}

// endsOf reads the cut off an assignment, and fails where parts are not runs of units in order.
func endsOf(t *testing.T, a Assignment, units []Unit) []int {
	t.Helper()
	var ends []int
	last := 0
	for i, u := range units {
		p := a.Part[u.Params[0]]
		if p != last {
			require.Equal(t, last+1, p)
			ends = append(ends, i)
			last = p
		}
	}
	require.Equal(t, a.Parts-1, last)
	return append(ends, len(units))
}

func TestBalanceIsTheBestThereIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	refused, bounded := 0, 0
	for i := range 3500 {
		n := 1 + rng.IntN(9)
		stages, chunks := 1+rng.IntN(min(n, 5)), 1
		if i >= 3000 {
			stages, chunks = 2+rng.IntN(2), 2+rng.IntN(2)
			n = stages*chunks + rng.IntN(5)
		}
		units, power := randomUnits(rng, n), randomPower(rng, stages, uint64(rng.IntN(2)*(5*n/stages)))
		free, _ := Auto(units, stages, chunks, slices.Collect(func(yield func(Power) bool) {
			for _, p := range power {
				p.Memory = 0
				if !yield(p) {
					return
				}
			}
		}))
		best, even := math.Inf(1), math.Inf(1)
		everyCut(n, stages*chunks, func(ends []int) {
			times, ok := stageTimes(units, ends, power)
			switch slowest := slices.Max(times); {
			case !ok || slowest > best:
			case slowest < best:
				best, even = slowest, squares(times)
			default:
				even = min(even, squares(times))
			}
		})
		a, err := Auto(units, stages, chunks, power)
		if math.IsInf(best, 1) {
			require.ErrorContains(t, err, "no cut in")
			refused++
			continue
		}
		require.NoError(t, err)
		times, ok := stageTimes(units, endsOf(t, a, units), power)
		require.True(t, ok, "memory")
		require.InDelta(t, best, slices.Max(times), 1e-9, "%v %v", units, power)
		if chunks > 1 {
			continue
		}
		require.InDelta(t, even, squares(times), 1e-6, "as even as the best can be: %v %v", units, power)
		if fmt.Sprint(free) != fmt.Sprint(a) {
			bounded++
		}
	}
	assert.Greater(t, refused, 50, "cases that do not fit")
	assert.Greater(t, bounded, 50, "cases in which memory moves the cut")
}

// A model that is too deep for the search to end gets a good cut all the same: with alike layers, the best.
func TestBalanceOfADeepModel(t *testing.T) {
	units := make([]Unit, 82)
	for i := range units {
		units[i] = Unit{Params: []string{fmt.Sprintf("h.%d.w", i)}, FLOPs: 100, Activation: 1}
	}
	power := slices.Repeat([]Power{{Speed: gpu.Speed{FLOPS: 1e9, BytesPerSecond: 1e12}}}, 8)
	a, err := Auto(units, 8, 4, nil) // alike, as those are
	require.NoError(t, err)
	slowest, _ := slowestStage(units, endsOf(t, a, units), power)
	assert.InEpsilon(t, 3*100*11/1e9, slowest, 1e-3, "11 of 82 layers on the fullest of 8 stages")
}

// Where the search does not end, no cut can be moved by a unit to make the slowest stage faster.
func TestBalanceOfADeepUnevenModelHasNoBetterNeighbour(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for range 40 {
		stages, chunks := 3+rng.IntN(4), 2+rng.IntN(3)
		units, power := randomUnits(rng, stages*chunks+30), randomPower(rng, stages, 0)
		a, err := Auto(units, stages, chunks, power)
		require.NoError(t, err)
		ends := endsOf(t, a, units)
		slowest, _ := slowestStage(units, ends, power)
		for i := range len(ends) - 1 {
			for _, by := range []int{-1, 1} {
				moved := slices.Clone(ends)
				moved[i] += by
				if moved[i] == moved[i+1] || i > 0 && moved[i] == moved[i-1] || moved[i] == 0 {
					continue
				}
				other, _ := slowestStage(units, moved, power)
				require.GreaterOrEqual(t, other, slowest-1e-9, "cut %d", i)
			}
		}
	}
}

func TestBalanceErrors(t *testing.T) {
	units := unitsOf(t, gpt2(t, 2, false))
	fast := Power{Speed: gpu.Speed{FLOPS: 1, BytesPerSecond: 1}}
	for _, c := range []struct {
		want   string
		stages int
		power  []Power
	}{
		{"5 stages: the model has 4 pieces to give away (embedding, h.0, h.1, head), wanted at least 5", 5, nil},
		{"found the power of 1 stages, wanted 2", 2, []Power{fast}},
		{"stage 1: found 0 FLOP/s and 1 bytes/s, wanted more than 0", 2, []Power{fast, {Speed: gpu.Speed{BytesPerSecond: 1}}}},
		{"stage 0: found NaN FLOP/s", 2, []Power{{Speed: gpu.Speed{FLOPS: math.NaN(), BytesPerSecond: 1}}, fast}},
		{`no cut in 2 parts found that fits`, 2, []Power{{Speed: gpu.Speed{FLOPS: 1, BytesPerSecond: 1}, Memory: 100}, fast}},
	} {
		_, err := Auto(units, c.stages, 1, c.power)
		assert.ErrorContains(t, err, c.want)
	}
}
