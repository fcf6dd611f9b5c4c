package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gputrain/data"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
)

// A forecast is how long the rest of a run takes: what there is to do, and how long each takes.
type forecast struct {
	steps, evaluations, samples, checkpoints errand
	spent, compiling                         time.Duration // before the first step; compiling is a part of it
}

// errand is something that is done many times.
type errand struct {
	many int64
	each time.Duration
}

func (e errand) all() time.Duration { return time.Duration(float64(e.many) * float64(e.each)) }

// left is the time that what there is to do takes.
func (f forecast) left() time.Duration {
	return f.steps.all() + f.evaluations.all() + f.samples.all() + f.checkpoints.all()
}

// text is the forecast in one line.
func (f forecast) text() string {
	parts := []string{f.steps.text("step")}
	for _, e := range []struct {
		errand
		name string
	}{{f.evaluations, "evaluation"}, {f.samples, "sample"}, {f.checkpoints, "checkpoint"}} {
		if e.many > 0 {
			parts = append(parts, e.text(e.name))
		}
	}
	if f.compiling > 0 {
		parts = append(parts, "compiling "+durationText(f.compiling))
	}
	return fmt.Sprintf("the run takes about %s: %s", durationText(f.spent+f.left()), strings.Join(parts, ", "))
}

func (e errand) text(name string) string {
	if e.many != 1 {
		name += "s"
	}
	return fmt.Sprintf("%s %s of %s", grouped(e.many), name, durationText(e.each))
}

// durationText is a duration for people: two digits of seconds, or whole units.
func durationText(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 0.9995e-1:
		return fmt.Sprintf("%.2g ms", 1e3*s)
	case s < 9.95:
		return fmt.Sprintf("%.2g s", s)
	case s < 59.5:
		return fmt.Sprintf("%.0f s", s)
	}
	d = d.Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// timesDue counts how often something that is due every so many updates, and at the end, is done after step from.
func timesDue(from, steps, every int64) int64 {
	if from >= steps {
		return 0
	}
	if every < 1 {
		return 1
	}
	n := steps/every - from/every
	if steps%every != 0 {
		n++
	}
	return n
}

// count sets how often everything is done after step from.
func (f *forecast) count(c Config, from int64) {
	f.steps.many = c.Steps - from
	f.evaluations.many, f.samples.many, f.checkpoints.many = 0, 0, 0
	if c.Validation != nil {
		f.evaluations.many = timesDue(from, c.Steps, c.EvalEvery)
	}
	if c.Sample.Tokens > 0 {
		f.samples.many = timesDue(from, c.Steps, c.SampleEvery)
	}
	f.checkpoints.many = savesDue(c.SaveEvery, from, c.Steps)
}

// savesDue is the number of checkpoints after step from up to step steps, which is saved in any case.
func savesDue(v Intervals, from, steps int64) (n int64) {
	if from >= steps {
		return 0
	}
	begin := from
	for _, i := range v {
		end := steps
		if i.Until > 0 {
			end = min(steps, i.Until)
		}
		if end > begin {
			n, begin = n+end/i.Every-begin/i.Every, end
		}
	}
	if !saveDueAt(v, steps) {
		n++
	}
	return n
}

// What an update is taken to cost beside forward and backward pass, in the time of whose operations it is told: adapters make about two of
// those in the time in which a byte comes and goes, on a processor as on a card, and a run's update is a small part of its step.
const operationsAByte = 2

// updateTime is how long the update takes where the passes' operations take that long.
func updateTime(passes time.Duration, flops, updateFLOPs, updateBytes float64) time.Duration {
	return time.Duration(float64(passes) / flops * (updateFLOPs + operationsAByte*updateBytes))
}

// What a checkpoint keeps training for is its copy to the host, at about this many bytes a second; it is written beside.
const copiedASecond = 5e8

// ofPeak is the share of their peak that processors reach in a step.
const ofPeak = 0.5

// guess tells, before anything is compiled, how long the rest of the run takes by counts alone. It does so for processors, whose drivers may
// compile for a minute; a card is measured as soon. Samples are left out: they are short, or measured.
func (t *trainer) guess(from int64) error {
	for _, d := range t.team.target.Devices() {
		if d.Adapter().Class() == gpu.Hardware || t.team.spread() { // the peak is that of this rank's adapters
			return nil
		}
	}
	c := t.config
	if t.peak == 0 || from >= c.Steps {
		return nil
	}
	f, err := guessed(c, from, t.ownFLOPs(), t.peak*ofPeak)
	if err != nil {
		return err
	}
	t.say("at %s of that peak the run takes about %s, and up to a minute more if the driver has yet to compile its kernels; it is measured before the first step",
		percent(ofPeak), durationText(f.left()))
	return nil
}

// guessed is a forecast for devices that make so many operations a second, flops of them in the passes of an update.
func guessed(c Config, from int64, flops, speed float64) (f forecast, err error) {
	f.count(c, from)
	passes := time.Duration(flops / speed * float64(time.Second))
	if err := f.update(c.State, passes, flops); err != nil {
		return f, err
	}
	if f.evaluations.many > 0 {
		e, err := c.evaluation()
		if err != nil {
			return f, err
		}
		f.evaluations.each = evaluating(c.State, passes, e.Batches())
	}
	f.samples.many = 0
	return f, nil
}

// ownFLOPs are the operations of this rank's passes in an update, or of one batch where it has none.
func (t *trainer) ownFLOPs() float64 {
	c := t.config.State
	return t.flops * float64(max(1, c.Share().Count)) / float64(c.Microbatches)
}

// update sets the time of a step, whose passes take so long, and that of a checkpoint.
func (f *forecast) update(c state.Config, passes time.Duration, flops float64) error {
	tx, err := c.Transform()
	if err != nil {
		return err
	}
	cost, parameters := tx.Cost(), float64(model.Parameters(c.Definition))
	f.steps.each = passes + updateTime(passes, flops, cost.FLOPs*parameters, cost.TrafficBytes*parameters)
	f.checkpoints.each = time.Duration(parameters * (4 + cost.StateBytes) / copiedASecond * float64(time.Second))
	return nil
}

// foresee tells how long the run will take, before its first step: each kind of work is done once for what drivers compile at its first use,
// and then to be measured. Nothing of it changes the run.
func (t *trainer) foresee(ctx context.Context) error {
	c, from := t.config, t.state.Step()
	if from >= c.Steps {
		return nil
	}
	if ctx = t.team.uncancelled(ctx); context.Cause(ctx) != nil {
		return t.expect(ctx)
	}
	defer t.times.span(spanForecast)()
	f := &t.forecast
	f.count(c, from)
	times := 1 // at first, for what is compiled then; after that as many as training has in flight
	passes, err := t.measured(func() (time.Duration, error) {
		defer func() { times = 2 }()
		return t.state.Rehearse(ctx, times)
	})
	if err != nil {
		return err
	}
	if err := f.update(c.State, passes, t.ownFLOPs()); err != nil {
		return err
	}
	if f.evaluations.many > 0 {
		if f.evaluations.each, err = t.measured(func() (time.Duration, error) { return t.evaluationTime(ctx, passes) }); err != nil {
			return err
		}
	}
	if f.samples.many > 0 {
		if f.samples.each, err = t.measured(func() (time.Duration, error) { return t.sampleTime(ctx) }); err != nil {
			return err
		}
	}
	if err := t.expect(ctx); err != nil {
		return err
	}
	t.tellSubmits()
	f.spent = whole(t.times.list())
	f.compiling += t.times.compiled()
	t.say("%s", f.text())
	return nil
}

// expect makes the forecast that of all ranks, whose slowest the others wait for.
func (t *trainer) expect(ctx context.Context) (err error) {
	f := &t.forecast
	f.steps.each, err = t.team.expect(ctx, f.steps.each, f.evaluations.each+f.samples.each+f.checkpoints.each)
	return err
}

// Something is measured until so much time has gone, but not more often than that: a machine that does other things as well makes one time a
// chance.
const (
	measureFor      = time.Second
	measureMost     = 5
	measureTogether = 2 // by ranks that have stages of one model
)

// measured is the mean of what once tells, but for the first time: what that took longer than the others went into compiling.
func (t *trainer) measured(once func() (time.Duration, error)) (time.Duration, error) {
	begin := time.Now()
	if _, err := once(); t.team.note(err) != nil {
		return 0, err
	}
	first := time.Since(begin)
	begin = time.Now()
	sum, n := time.Duration(0), 0
	again := func() bool { return n == 0 || n < measureMost && time.Since(begin) < measureFor }
	if t.team.spread() { // equally often on all
		again = func() bool { return n < measureTogether }
	}
	for ; again(); n++ {
		told, err := once()
		if t.team.note(err) != nil {
			return 0, err
		}
		sum += told
	}
	t.forecast.compiling += max(0, first-time.Since(begin)/time.Duration(n))
	return sum / time.Duration(n), nil
}

// evaluating is the time of an evaluation of so many batches where the passes of an update take so long, a third of it forward.
func evaluating(c state.Config, passes time.Duration, batches int) time.Duration {
	return time.Duration(float64(passes) / 3 * float64(batches*c.Evaluation) / float64(max(1, c.Share().Count)*c.Batch))
}

// evaluationTime is that of an evaluation, by one of a single batch; where none of its tokens count, which is no result, it is that of as many
// forward passes.
func (t *trainer) evaluationTime(ctx context.Context, passes time.Duration) (time.Duration, error) {
	c := t.config.State
	one, err := data.NewEvaluation(t.config.Validation, c.Sequence, c.Evaluation, c.Evaluation)
	if err != nil {
		return 0, err
	}
	_, own := t.team.part(t.validation)
	batches := time.Duration(own) / time.Duration(one.Batches())
	begin := time.Now()
	_, err = t.state.Evaluate(ctx, one)
	switch {
	case errors.Is(err, state.ErrNoLabels):
		return evaluating(c, passes, own), nil
	case err != nil:
		return 0, err
	}
	return time.Since(begin) * batches, nil
}

// sampleTime is that of a sample, by its first tokens: the first takes the prompt in, as does the first of each further window; each of the
// others is like the next.
func (t *trainer) sampleTime(ctx context.Context) (time.Duration, error) {
	c := t.config.Sample
	all := c.Tokens
	c.Tokens = min(c.Tokens, 4)
	begin := time.Now()
	var first time.Duration
	err := GenerateTokens(ctx, c, []int32{0}, t.state, func(int32) bool {
		if first == 0 {
			first = time.Since(begin)
		}
		return true
	})
	if err != nil && !errors.Is(err, errLogits) { // whether the run has diverged is for its steps to say
		return 0, err
	}
	if c.Tokens == 1 || first == 0 {
		return time.Since(begin) * time.Duration(all), nil
	}
	each := (time.Since(begin) - first) / time.Duration(c.Tokens-1)
	half := max(1, t.state.Window()/2)
	windows := 1 + max(0, all-t.state.Window()+half-1)/half
	return first*time.Duration(windows) + each*time.Duration(all-windows), nil
}

// toCome is the forecast of what is left to do after the last step whose metrics were taken, by what steps have taken of late: the first of this
// process, which also compiles, counts only while there is no other.
func (t *trainer) toCome() forecast {
	f := t.forecast
	f.count(t.config, t.last.Step)
	f.spent, f.compiling = whole(t.times.list()), 0
	lines := t.recent
	if len(lines) > 1 && lines[0].Step == t.resumed+1 {
		lines = lines[1:]
	}
	sum := 0.0
	for _, m := range lines {
		sum += float64(m.StepMS)
	}
	if len(lines) > 0 && t.last.Step > t.resumed+1 {
		f.steps.each = time.Duration(sum / float64(len(lines)) * float64(time.Millisecond))
	}
	return f
}

// A forecast is told once more after some steps where it has turned out otherwise by more than a share.
const (
	forecastSteps = 10
	forecastShare = 0.1
)

// reconsider tells the forecast anew.
func (t *trainer) reconsider() {
	if t.last.Step != t.resumed+forecastSteps {
		return
	}
	now, before := t.toCome(), t.forecast
	if off := float64(now.spent+now.left()) / float64(before.spent+before.left()); off < 1-forecastShare || off > 1+forecastShare {
		t.say("after %d steps: %s", forecastSteps, now.text())
	}
}
