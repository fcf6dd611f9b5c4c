package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gputrain/gpu"
	"gputrain/run/data"
	"gputrain/run/rollout"
	"gputrain/state"
)

// rehearsal does each kind of work of a run once before its first step, for what drivers compile at its first use, and then to measure it.
type rehearsal struct {
	config     Config
	team       *team
	state      State
	validation *data.Evaluation
	times      *times
	display    *display
	flops      float64       // of an update, but for the optimizer's
	peak       float64       // of the devices, a second; 0: nobody knows
	pass       time.Duration // about what the passes that are measured take, by counts alone

	runs, done int // what is run: each kind of work at first and again
}

// run tells how long the run will take, before its first step: each kind of work is done once for what drivers compile at its first use,
// and then to be measured. Nothing of it changes the run.
func (r *rehearsal) run(ctx context.Context) error {
	c, from := r.config, r.state.Step()
	if ctx = r.team.uncancelled(ctx); context.Cause(ctx) != nil {
		return r.expect(ctx)
	}
	defer r.times.span(spanForecast)()
	f := &r.display.forecast
	f.count(c, from)
	r.runs = 1
	measures := c.evaluatesLoss() && f.evaluations.many > 0
	if r.runs += int(min(1, f.samples.many)); measures {
		r.runs++
	}
	r.runs *= runsOfKind
	r.display.Phase(spanForecast, 0, r.runs)
	measured := func(once func() (time.Duration, error)) (time.Duration, error) {
		each, err := r.measured(once)
		if err == nil {
			r.count((r.done/runsOfKind + 1) * runsOfKind)
		}
		return each, err
	}
	r.pass = r.expected()
	times := 1 // at first, for what is compiled then; after that as many as training has in flight
	passes, err := measured(func() (time.Duration, error) {
		if !r.long() {
			defer func() { times = 2 }()
		}
		return r.state.Rehearse(ctx, times)
	})
	if err != nil {
		return err
	}
	speed := r.speed(passes)
	if err := f.update(c.State, passes, speed); err != nil {
		return err
	}
	r.drawing(passes, speed)
	if measures {
		once := func() (time.Duration, error) { return r.evaluationTime(ctx, passes) }
		if r.long() { // as the passes were
			_, own := r.team.part(r.validation)
			once = func() (time.Duration, error) { return evaluating(c.State, passes, own), nil }
		}
		if f.evaluations.each, err = measured(once); err != nil {
			return err
		}
	}
	if f.samples.many > 0 {
		if f.samples.each, err = measured(func() (time.Duration, error) { return r.sampleTime(ctx) }); err != nil {
			return err
		}
	}
	if err := r.expect(ctx); err != nil {
		return err
	}
	r.tellSubmits()
	r.tell()
	return nil
}

// recall is run with what was measured at an earlier start of the run, at that step.
func (r *rehearsal) recall(m measured, step int64) {
	f := &r.display.forecast
	f.count(r.config, r.state.Step())
	f.steps.each, f.evaluations.each, f.samples.each, f.checkpoints.each = m.Step, m.Evaluation, m.Sample, m.Checkpoint
	r.drawing(m.Step, r.speed(m.Step))
	r.display.say("times as they were measured at step %s", grouped(step))
	r.tell()
}

// speed is that of a device whose passes of an update take so long.
func (r *rehearsal) speed(passes time.Duration) gpu.Speed {
	return paced(r.team.target.Devices()[0].Adapter(), ownFLOPs(r.config.State, r.flops)/passes.Seconds())
}

// drawing makes the forecast that of generations, too.
func (r *rehearsal) drawing(passes time.Duration, speed gpu.Speed) {
	overhead := time.Duration(float64(commandsOf(r.state.Submits())) * speed.Command * float64(time.Second))
	r.display.forecast.drawing(r.config, passes, min(overhead, passes), speed)
}

// runsOfKind is how many runs of each kind of work are counted.
const runsOfKind = 2

// count shows how many runs are made.
func (r *rehearsal) count(done int) {
	if done > r.done && r.runs > 0 {
		r.done = done
		r.display.Phase(spanForecast, done, r.runs)
	}
}

// tell tells the forecast.
func (r *rehearsal) tell() {
	f := &r.display.forecast
	f.spent = whole(r.times.list())
	f.compiling += r.times.compiled()
	r.display.say("%s", f.text())
}

// long tells that passes take long enough for one to be measured alone. Ranks with stages of one model measure equally often.
func (r *rehearsal) long() bool { return r.pass >= measureFor && !r.team.spread() }

// expected is about how long the passes that are measured take, by counts alone.
func (r *rehearsal) expected() time.Duration {
	s := r.team.target.Devices()[0].Adapter().Typical()
	if r.peak > 0 {
		s.FLOPS = r.peak * ofPeak
	}
	c := r.config.State
	return time.Duration(ownFLOPs(c, r.flops) / float64(max(1, share(c).Count)) / s.FLOPS * float64(time.Second))
}

// expect makes the forecast that of all ranks, whose slowest the others wait for.
func (r *rehearsal) expect(ctx context.Context) (err error) {
	f := &r.display.forecast
	f.steps.each, err = r.team.expect(ctx, f.steps.each, f.evaluations.each+f.samples.each+f.checkpoints.each)
	return err
}

// Something is measured again until measureAgain has gone, but not more often than measureMost: a machine that does other things as well makes one time
// a chance, and every start waits for it. Where passes take measureFor all is measured once, and passes again if the first took twice what they should, as
// it does where drivers compile.
const (
	measureFor      = time.Second
	measureAgain    = measureFor / 4
	measureMost     = 5
	measureTogether = 2 // by ranks that have stages of one model
	rehearsedTokens = 4 // of a sample
)

// measured is the mean of what once tells, but for the first time: what that took longer than the others went into compiling.
func (r *rehearsal) measured(once func() (time.Duration, error)) (time.Duration, error) {
	begin := time.Now()
	told, err := once()
	first := time.Since(begin)
	if r.team.note(err) != nil || r.long() && first < 2*r.pass {
		return told, err
	}
	r.count(r.done + 1)
	begin = time.Now()
	sum, n := time.Duration(0), 0
	again := func() bool { return n == 0 || n < measureMost && time.Since(begin) < measureAgain && !r.long() }
	if r.team.spread() { // equally often on all
		again = func() bool { return n < measureTogether }
	}
	for ; again(); n++ {
		told, err := once()
		if r.team.note(err) != nil {
			return 0, err
		}
		sum += told
	}
	r.display.forecast.compiling += max(0, first-time.Since(begin)/time.Duration(n))
	return sum / time.Duration(n), nil
}

// evaluationTime is that of an evaluation, by one of a single batch; where none of its tokens count, which is no result, it is that of as many
// forward passes.
func (r *rehearsal) evaluationTime(ctx context.Context, passes time.Duration) (time.Duration, error) {
	c := r.config.State
	one, err := data.NewEvaluation(r.config.Validation, c.Sequence, c.Evaluation, c.Evaluation)
	if err != nil {
		return 0, err
	}
	_, own := r.team.part(r.validation)
	batches := time.Duration(own) / time.Duration(one.Batches())
	begin := time.Now()
	_, err = r.state.Evaluate(ctx, one)
	switch {
	case errors.Is(err, state.ErrNoLabels):
		return evaluating(c, passes, own), nil
	case err != nil:
		return 0, err
	}
	return time.Since(begin) * batches, nil
}

// sampleTime is that of a sample, by its first tokens: the first takes the prompt in, as the first of each further window does half a window; each of the
// others is like the next.
func (r *rehearsal) sampleTime(ctx context.Context) (time.Duration, error) {
	c := r.config.Sample
	all := c.Tokens
	c.Tokens = min(c.Tokens, rehearsedTokens)
	begin := time.Now()
	var first time.Duration
	prompt := c.Begin
	if len(prompt) == 0 { // a few words
		prompt = []int32{0}
	}
	err := GenerateTokens(ctx, c, prompt, r.state, func(int32) bool {
		if first == 0 {
			first = time.Since(begin)
		}
		return true
	})
	if err != nil && !errors.Is(err, rollout.ErrNotFinite) { // whether the run has diverged is for its steps to say
		return 0, err
	}
	if c.Tokens == 1 || first == 0 {
		return time.Since(begin) * time.Duration(all), nil
	}
	each := (time.Since(begin) - first) / time.Duration(c.Tokens-1)
	half := max(1, r.state.Window()/2)
	windows := 1 + max(0, min(len(prompt), r.state.Window())-1+all-r.state.Window()+half-1)/half
	return first*time.Duration(windows) + each*time.Duration(all-windows), nil
}

// TooLong says which command of some submits takes longer than a submit may although it cannot be cut, and what to do; "" where none does.
func TooLong(all []gpu.Planned, limit time.Duration) string {
	var longest gpu.Planned
	for _, p := range all {
		if p.LongestTakes > longest.LongestTakes {
			longest = p
		}
	}
	if limit <= 0 || longest.LongestTakes <= limit {
		return ""
	}
	return fmt.Sprintf("%s is expected to take %s, wanted at most %s (device.submit_limit), and is not to be cut: "+
		"lower train.batch and raise train.accumulate, or raise pipeline.microbatches", longest.Longest, durationText(longest.LongestTakes), durationText(limit))
}

// tellSubmits says into how many submits a step is cut, if it is, and what cannot be cut although it takes longer than a submit may.
func (r *rehearsal) tellSubmits() {
	submits, cut, most := 0, false, time.Duration(0)
	for stage, all := range r.state.Submits() {
		d := r.team.target.Devices()[stage]
		if d.Dry() && r.team.spread() { // the stage is on another rank
			continue
		}
		for _, s := range all {
			submits, cut, most = submits+s.Times, cut || s.Cut, max(most, s.Takes)
		}
		if d.Limits().Software { // nothing resets a processor
			continue
		}
		if wrong := TooLong(all, d.SubmitLimit()); wrong != "" {
			r.display.say("warning: %s", wrong)
		}
	}
	if cut {
		r.display.say("a step is cut into %d submits, the longest expected to take %s", submits, durationText(most))
	}
}
