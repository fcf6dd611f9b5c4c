package state

import (
	"context"
	"fmt"
	"time"

	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
)

// inFlight is the number of steps that may be submitted and not yet read.
const inFlight = 2

// Metrics is what is known of one step.
type Metrics struct {
	Step         int64
	Loss         float64   // nats a token: the sum over the tokens that count, divided by their number
	Tokens       int64     // model.Loss.Counts, whose mean the loss is
	Means        []float64 // of the objective's Sums, and its Maxima
	Balance      float64   // the load-balancing loss, mean over the microbatches; 0 without experts
	Experts      []int64   // how often each expert was chosen, layer by layer (model.Routing)
	LearningRate float64
	GradNorm     float64 // global L2 norm of the gradient of Loss, before any clip
	UpdateNorm   float64 // global L2 norm of the update; 0 where it is not measured
	// Finite is false when the loss or an element of the gradient or of a measured update is not finite; the update was then left out.
	Finite  bool
	Skipped int64       // updates left out up to this step because they were not finite
	Spikes  optim.Spike // which Limits the step was beyond; if any, the update was left out
}

// StageUse is how the stages of a pipeline spent the time of a step.
type StageUse struct {
	Busy     []float64 // share of the time in which each stage computed, 0 to 1
	Bubble   float64   // share of the time in which stages had nothing to do: 1 - the mean of Busy
	Transfer float64   // share of the time in which something was under way between stages
}

// pendingStep is a step whose results are on their way.
type pendingStep struct {
	step, tokens int64
	rate         float64
	begun        time.Time // when its first submit was made
	arrival      <-chan arrival
}

// arrival is what has come of a step, and when.
type arrival struct {
	raw []byte
	err error
	at  time.Time
}

// TrainStep makes one update with a batch of Batch x Microbatches sequences, or with a Reducer those of this replica's Share. It does not wait for the device unless two steps are already
// in flight. It returns the metrics that have become available: none at first, then those of the step before. After an error the state is
// unusable, unless nothing was submitted: for a batch of another shape, and a call beside another.
func (s *TrainState) TrainStep(ctx context.Context, batch data.Batch) ([]Metrics, error) {
	if err := s.turn.take(); err != nil {
		return nil, fmt.Errorf("state: train step: %w", err)
	}
	defer s.turn.give()
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("state: step %d: %w", s.own.Step+1, err)
	}
	count, err := s.job.count(batch)
	if err != nil {
		return nil, fmt.Errorf("state: step %d: %w", s.own.Step+1, err)
	}
	s.forget()
	if err := s.trainStep(ctx, batch, count); err != nil {
		s.broken = err
		return nil, fmt.Errorf("state: step %d: %w", s.own.Step+1, err)
	}
	return s.take(), nil
}

func (s *TrainState) trainStep(ctx context.Context, batch data.Batch, own model.Counts) error {
	// A step once begun is finished: whoever wants to stop does so between steps.
	ctx = context.WithoutCancel(ctx)
	if !s.hasLosses() {
		own = model.Counts{} // another rank says how many
	}
	all, err := s.countAll(ctx, own)
	if err != nil {
		return err
	}
	if s.job.RoundProducts && s.scale > 0 {
		for i, opt := range s.Optimizers() {
			if err := opt.SetScale(s.scale); err != nil {
				return s.passes.Failed(i, err)
			}
		}
	}
	if err := s.updater.Prepare(ctx, nil); err != nil {
		return err
	}
	if moved, err := s.updater.Move(ctx, s.passes.Each(ctx)); err != nil {
		return err
	} else if moved {
		if err := s.spread(ctx); err != nil {
			return err
		}
	}
	if batch, err = s.ahead(ctx, batch); err != nil {
		return err
	}
	count := all.Of
	if l := s.limits.Of(count); l != s.limited {
		for i, opt := range s.Optimizers() {
			if err := opt.SetLimits(l); err != nil {
				return s.passes.Failed(i, err)
			}
		}
		s.limited = l
	}
	begun := time.Now()
	in := Inputs{Batch: batch, Counts: all, Step: s.own.Step, Scale: s.scale}
	if s.updater.whole() && !s.job.joined() {
		// The update goes with the last microbatch. The ring has room for the steps in flight only.
		err := s.passes.Compute(ctx, in, func() (*gpu.Program, error) { return s.updater.Program(), s.read(inFlight - 1) })
		if err != nil {
			return err
		}
		s.submitted(begun, count)
		return nil
	}
	if err := s.passes.Compute(ctx, in, nil); err != nil {
		return err
	}
	if s.job.joined() {
		if err := s.reduce(ctx); err != nil {
			return err
		}
	}
	if err := s.updater.Apply(ctx, s.passes.Each(ctx)); err != nil {
		return err
	}
	if err := s.spread(ctx); err != nil {
		return err
	}
	s.submitted(begun, count)
	return s.read(0)
}

// submitted counts a step whose results are on their way.
func (s *TrainState) submitted(begun time.Time, tokens int64) {
	s.own.Step++
	s.pending = append(s.pending, pendingStep{
		step: s.own.Step, tokens: tokens, rate: s.stages[0].State.LearningRate(), begun: begun, arrival: s.await(),
	})
}

// await takes the results of the step just submitted as soon as they are there, after those of the steps before.
func (s *TrainState) await() <-chan arrival {
	out, before, done := make(chan arrival, 1), s.awaited, make(chan struct{})
	ring, life := s.ring, s.life
	s.awaited = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		var a arrival
		a.err = caught.Do(func() (err error) {
			// They are there before they can be copied: that may have to wait for a submit to end, which is the next step on a software adapter.
			err = ring.Wait(life)
			if a.at = time.Now(); err == nil {
				a.raw, err = ring.Next(life)
			}
			return err
		})
		out <- a
	}()
	return out
}

// read takes the results of the oldest steps until at most left are outstanding.
func (s *TrainState) read(left int) error {
	for len(s.pending) > left {
		p := s.pending[0]
		found := <-p.arrival
		if found.err != nil {
			return s.passes.Failed(s.told, found.err)
		}
		s.pending = append(s.pending[:0], s.pending[1:]...)
		if s.done.Before(p.begun) {
			s.done = p.begun
		}
		m := Metrics{Step: p.step, Tokens: p.tokens, LearningRate: p.rate}
		s.times[p.step%timesKept] = deviceTime{found.at.Sub(s.done), found.at}
		s.done = found.at
		if err := m.parse(s.job, found.raw); err != nil {
			return err
		}
		if !m.Finite {
			s.own.Skipped++
		}
		m.Skipped = s.own.Skipped
		s.ready = append(s.ready, m)
	}
	return nil
}

func (s *TrainState) take() []Metrics {
	m := s.ready
	s.ready = nil
	return m
}

// timesKept is the number of newest steps whose DeviceTime is known: no call returns the metrics of more.
const timesKept = inFlight + 1

// deviceTime is how long the device was at work on a step, and when it was done.
type deviceTime struct {
	worked time.Duration
	done   time.Time
}

// DeviceTime tells how long the device worked on one of the newest steps, and when its results were there. The time runs from the step's
// first submit, or from the end of the step before where that was later. It includes whatever else was submitted in between.
func (s *TrainState) DeviceTime(step int64) (worked time.Duration, done time.Time) {
	t := s.times[step%timesKept]
	return t.worked, t.done
}

// Drain waits for the steps in flight and returns the metrics not yet returned.
func (s *TrainState) Drain(context.Context) ([]Metrics, error) {
	if err := s.settle(); err != nil {
		return nil, fmt.Errorf("state: drain: %w", err)
	}
	return s.take(), nil
}

// settle waits for the steps in flight.
func (s *TrainState) settle() error {
	err := s.usable()
	if err == nil {
		err = s.read(0)
		s.broken = err
	}
	return err
}
