package partition

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/model"
)

// Power is what a stage can do.
type Power struct {
	gpu.Speed        // its bytes are those that the stage sends and receives
	Memory    uint64 // bytes; 0 is unknown
}

// backwardWork is what a backward pass costs in forward passes: a product has two gradients.
const backwardWork = 2

// Even is Auto of a built model for stages that are alike, with one part each.
func Even(built *model.Built, stages int) (Assignment, error) {
	units, err := Units(built)
	if err != nil {
		return Assignment{}, err
	}
	return Auto(units, stages, 1, nil)
}

// Auto cuts a model so that the slowest stage takes as little time as possible, in computing and in moving activations, and no stage
// is given more than its memory, as far as Unit.Memory and Power.Memory tell. With one part a stage the cut is the best there is, and among
// the best one whose stages are as even as possible. With several parts a stage (chunks) it is the best there is for models of some twenty
// units; beyond, a search of bounded length improves on parts as even as possible. Nil power is stages that are all alike.
// An error says how many parts the units allow, or what memory there is and what is wanted.
func Auto(units []Unit, stages, chunks int, power []Power) (Assignment, error) {
	if err := enough(units, stages, chunks); err != nil {
		return Assignment{}, err
	}
	if power == nil {
		power = slices.Repeat([]Power{{Speed: gpu.Speed{FLOPS: 1e10, BytesPerSecond: 1e10}}}, stages)
	}
	if len(power) != stages {
		return Assignment{}, fmt.Errorf("pipeline: balance: found the power of %d stages, wanted %d", len(power), stages)
	}
	for s, p := range power {
		if !(p.FLOPS > 0 && p.BytesPerSecond > 0) {
			return Assignment{}, fmt.Errorf("pipeline: balance: stage %d: found %g FLOP/s and %g bytes/s, wanted more than 0", s, p.FLOPS, p.BytesPerSecond)
		}
	}
	b := newBalance(units, stages, chunks, power)
	ends := b.contiguous()
	if chunks > 1 {
		b.shift(ends)
		ends = b.search(ends)
		b.shift(ends)
	}
	if ends == nil || b.score(ends).over > 0 {
		return Assignment{}, b.tooLarge()
	}
	return assignment(units, ends, stages), nil
}

// costOf is the seconds of a microbatch in units[from:to] as one part, forward and backward: computing, and moving activations and their gradients in
// and out.
func (b balance) costOf(from, to int, power Power) (compute, move float64) {
	work, moved := b.work[to]-b.work[from], b.units[to-1].moved()
	if from > 0 {
		moved += b.units[from-1].moved()
	}
	return float64(work) / power.FLOPS, float64(moved) / power.BytesPerSecond
}

// work is the operations of both passes of a microbatch.
func (u Unit) work() int64 { return (1+backwardWork)*u.FLOPs - u.Spared }

// moved is the bytes that a cut behind the unit sends on and back, a microbatch.
func (u Unit) moved() uint64 { return 2*u.Activation - u.OneWay }

// balance is one search for a cut.
type balance struct {
	units         []Unit
	stages, parts int
	power         []Power
	work          []int64  // of the first i units
	bytes         []uint64 // of their memory
}

func newBalance(units []Unit, stages, chunks int, power []Power) balance {
	b := balance{units: units, stages: stages, parts: stages * chunks, power: power, work: []int64{0}, bytes: []uint64{0}}
	for i, u := range units {
		b.work, b.bytes = append(b.work, b.work[i]+u.work()), append(b.bytes, b.bytes[i]+u.Memory)
	}
	return b
}

// seconds is the time of units[from:to] as part p.
func (b balance) seconds(p, from, to int) float64 {
	compute, move := b.costOf(from, to, b.power[p%b.stages])
	return compute + move
}

// fits tells whether units[from:to] alone exceed the memory of the stage of part p.
func (b balance) fits(p, from, to int) bool {
	limit := b.power[p%b.stages].Memory
	return limit == 0 || b.memory(from, to) <= limit
}

// memory is what units[from:to] take.
func (b balance) memory(from, to int) uint64 { return b.bytes[to] - b.bytes[from] }

// contiguous finds the ends of the parts: the time of the slowest part is the least there is, and below it the sum of the squares of
// the times. nil where no cut keeps every part within its stage's memory.
func (b balance) contiguous() []int {
	slowest, _ := b.cheapest(math.Inf(1), math.Max, func(x float64) float64 { return x })
	if math.IsInf(slowest, 1) {
		return nil
	}
	_, ends := b.cheapest(slowest, func(x, y float64) float64 { return x + y }, func(x float64) float64 { return x * x })
	return ends
}

// cheapest minimises a total over the parts of which none takes longer than limit, by dynamic programming over (part, its end).
func (b balance) cheapest(limit float64, join func(x, y float64) float64, of func(float64) float64) (float64, []int) {
	n := len(b.units)
	best := make([][]float64, b.parts+1) // best[p][i]: the first p parts hold the first i units
	begin := make([][]int, b.parts+1)
	for p := range best {
		best[p], begin[p] = slices.Repeat([]float64{math.Inf(1)}, n+1), make([]int, n+1)
	}
	best[0][0] = 0
	for p := range b.parts {
		shortest := p + 1
		if p == b.parts-1 {
			shortest = n // the last part takes the rest
		}
		for to := shortest; to <= n; to++ {
			for from := p; from < to; from++ {
				if math.IsInf(best[p][from], 1) {
					continue
				}
				t := b.seconds(p, from, to)
				if t > limit || !b.fits(p, from, to) {
					continue
				}
				if total := join(best[p][from], of(t)); total < best[p+1][to] {
					best[p+1][to], begin[p+1][to] = total, from
				}
			}
		}
	}
	ends := make([]int, b.parts)
	for p, to := b.parts, n; p > 0; p-- {
		ends[p-1], to = to, begin[p][to]
	}
	return best[b.parts][n], ends
}

// tooLarge says what memory there is and what is wanted.
func (b balance) tooLarge() error {
	largest := b.units[0]
	for _, u := range b.units {
		if u.Memory > largest.Memory {
			largest = u
		}
	}
	have := make([]string, b.stages)
	for s, p := range b.power {
		have[s] = "unknown"
		if p.Memory > 0 {
			have[s] = gpu.SizeText(p.Memory)
		}
	}
	return fmt.Errorf("pipeline: balance: no cut in %d parts found that fits: parameters, gradients and optimizer take %s (%q alone %s), the stages have %s: more stages, or adapters with more memory: %w",
		b.parts, gpu.SizeText(b.memory(0, len(b.units))), largest.Name, gpu.SizeText(largest.Memory), strings.Join(have, ", "), gpu.ErrOutOfMemory)
}
