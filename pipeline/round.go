package pipeline

import (
	"context"

	"gputrain/gpu"
	"gputrain/internal/schedule"
)

// A round is a run of a line over some microbatches of an update: those with a gradient. Stages neither compute the others nor hand anything on for them.
type round struct {
	order   *schedule.Schedule
	numbers []int // in the update, of those of the order; nil: as they are
	all     int   // microbatches of the update
}

// whole is a round of all microbatches of a schedule.
func whole(order *schedule.Schedule) round { return round{order: order, all: order.Microbatches} }

// number is that of a microbatch of the order in the update; -1 and the one behind the last are those around all.
func (r round) number(i int) int {
	switch {
	case r.numbers == nil || i < 0:
		return i
	case i == len(r.numbers):
		return r.all
	}
	return r.numbers[i]
}

// idle are what a part makes of the microbatches from first to end, which have no gradient: zeros, where others are overwritten and added up.
func (p *linePart) idle(first, end int) (out []*gpu.Program) {
	for i := first; i < end && p.zero != nil; i++ {
		out = append(out, p.zero)
		if sum := p.sum(i); sum != nil {
			out = append(out, sum)
		}
	}
	return out
}

// idle submits what comes behind the last action of a worker: microbatches without a gradient, and what precedes the first action where there was none.
func (w *worker) idle(ctx context.Context) error {
	submit, n := w.begin, w.round.order.Microbatches
	for _, p := range w.line.parts {
		if w.line.stageOf(p.index) == w.stage {
			submit = append(submit, p.idle(w.round.number(n-1)+1, w.round.number(n))...)
		}
	}
	if len(submit) == 0 {
		return nil
	}
	return w.submit(ctx, schedule.Action{Kind: schedule.Backward, Part: w.stage.index, Microbatch: w.round.all - 1}, submit...)
}
