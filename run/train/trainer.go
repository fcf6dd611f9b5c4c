package train

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"gputrain/run/data"
	"gputrain/run/rollout"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// trainer is a run under way.
type trainer struct {
	config     Config
	team       *team
	dir        *runDir
	state      State
	store      checkpoint.Store
	loader     BatchSource
	rollouts   *rollouts // the loader of a run that draws what it learns from; else nil
	validation *data.Evaluation
	times      *times

	// What follows the run: observers in their order, and what looks at the state between a step and its hooks.
	observers  []observer
	journal    journal
	display    *display
	reporter   *reporter
	histograms histograms
	watching   watching
	meter      meter

	run        checkpoint.Run  // as of the last metrics read; Data as of the last batch given to a step
	late       []state.Metrics // read, not yet taken
	hookFailed bool            // a hook has failed: they are told of the end alone
	window     window
	last       Metrics // the last metrics read
	resumed    int64   // the step that this process went on from
	saves      saves
	evaluated  int64 // the step of the newest evaluation
	sampled    int64 // and of the newest sample
	asked      int64 // and of the newest answers to questions
	evalLoss   float64
	since      int64 // the step that Patience counts from
	checkpoint string
	session    *session // the line of this process; nil: nothing is left to do
}

func newTrainer(c Config, m *team, p Progress, spent *times) *trainer {
	t := &trainer{config: c, team: m, times: spent, evalLoss: math.NaN()}
	t.display = &display{Progress: p, config: c, times: spent}
	t.reporter = &reporter{config: c, team: m, times: spent}
	t.meter = meter{team: m}
	t.watching = watching{watchers: c.Watchers, steps: c.Steps, times: spent}
	t.histograms = histograms{every: c.HistogramEvery, steps: c.Steps, match: c.HistogramMatch, times: spent, tell: t.tell}
	t.observers = []observer{&t.journal, t.display, t.reporter}
	return t
}

func (t *trainer) say(format string, args ...any) { t.display.say(format, args...) }

// loop makes the steps that are left and takes leave: a wanted stop, and what leaves the state sound, saves what has been reached.
func (t *trainer) loop(ctx context.Context) error {
	err := t.steps(ctx)
	if t.team.apart && t.config.Ranks != nil {
		return errors.Join(err, t.finishSave(ctx, true))
	}
	wanted := stopOf(ctx, err)
	if wanted == nil && !isSound(err) {
		return errors.Join(err, t.finishSave(ctx, true))
	}
	if failed := t.stopped(ctx); wanted != nil && failed != nil {
		return failed
	} else if failed != nil {
		return errors.Join(err, failed)
	}
	t.say("the same run goes on from %s", t.resumePoint())
	if wanted != nil {
		return wanted
	}
	return err
}

// steps makes the steps that are left. What is due at a step (evaluation, sample, checkpoint) comes between it and the next, also when the
// run was stopped in between, so that the logs of a resumed run are those of an undisturbed one.
func (t *trainer) steps(ctx context.Context) error {
	r := rehearsal{
		config: t.config, team: t.team, state: t.state, validation: t.validation, times: t.times, display: t.display, flops: t.meter.flops,
		peak: t.meter.peak,
	}
	known, step := t.measuredBefore()
	if known != nil {
		r.recall(*known, step)
	} else if !t.ends() {
		if err := r.run(ctx); err != nil {
			_, err = t.team.agree(ctx, err, false)
			return err
		}
	}
	if err := t.noteBegun(known == nil); err != nil {
		return err
	}
	err := t.tell(ctx, Event{Kind: Started})
	if t.state.Step() == t.config.Steps && err == nil {
		t.say("all %d steps are made", t.config.Steps)
	}
	t.meter.goOn()
	t.saves.begun = t.meter.mark
	for {
		if err == nil {
			err = t.due(ctx)
		}
		done, prepared := t.ends(), prepared{}
		if err == nil && !done {
			prepared, err = t.prepare(ctx)
		}
		if t.saves.late, err = t.team.agree(ctx, err, t.overdue()); err != nil || done {
			return err
		}
		err = t.step(ctx, prepared)
	}
}

func (t *trainer) resumePoint() string {
	if t.checkpoint == "" {
		return "the beginning"
	}
	return t.checkpoint
}

// stopped saves what has been reached. An error of a hook does not keep it from that.
func (t *trainer) stopped(ctx context.Context) error {
	err := t.drain(ctx)
	if err != nil && !isSound(err) {
		return err
	}
	return errors.Join(err, t.save(ctx, true), t.finishSave(ctx, true))
}

// prepared is what a step is made of.
type prepared struct {
	batch data.Batch
	wait  time.Duration // for it
}

// prepare begins a step, unless the run is to stop.
func (t *trainer) prepare(ctx context.Context) (p prepared, err error) {
	if err := stopRequested(ctx); err != nil {
		return p, err
	}
	if err := t.tell(ctx, Event{Kind: StepBegin}); err != nil {
		return p, err
	}
	if p.batch, p.wait, err = t.next(ctx); err != nil {
		return p, soundError{err}
	}
	return p, nil
}

// step makes one update.
func (t *trainer) step(ctx context.Context, p prepared) error {
	defer t.times.span(spanSteps)()
	c := t.config.State
	t.meter.begin(t.state.Step()+1, given{epoch: p.batch.Epochs, positions: int64(c.Batch * c.Microbatches * c.Sequence), wait: p.wait})
	t.state.SetLimits(guard{t.config.Spikes}.limits(t.run.Guard, t.state.Step()+1))
	if c.RoundProducts {
		t.state.SetScale(scaleAt(t.run.Scale, t.state.Step()+1))
	}
	metrics, err := t.state.TrainStep(ctx, p.batch)
	if err != nil {
		t.team.apart = true
		return err
	}
	t.run.Data = p.batch.State
	return errors.Join(t.countAndWatch(ctx), t.tell(ctx, Event{Kind: StepEnd}), t.take(ctx, metrics))
}

// next waits for a batch, and tells how long.
func (t *trainer) next(ctx context.Context) (data.Batch, time.Duration, error) {
	defer t.times.span(spanData)()
	begin := time.Now()
	batch, err := t.loader.Next(ctx)
	return batch, time.Since(begin), err
}

// drain waits for the steps in flight and takes their metrics and histograms.
func (t *trainer) drain(ctx context.Context) error {
	defer t.times.span(spanSteps)()
	metrics, err := t.state.Drain(ctx)
	if err != nil {
		return err
	}
	return errors.Join(t.take(ctx, metrics), t.histograms.take(ctx))
}

// countAndWatch makes histograms and calls watchers where the step just submitted is to have any.
func (t *trainer) countAndWatch(ctx context.Context) error {
	return errors.Join(t.histograms.take(ctx), t.histograms.submit(ctx, t.state.Step()), t.watching.look(ctx, t.state))
}

// take tells of metrics and looks for divergence. The error of a hook comes when all are taken.
func (t *trainer) take(ctx context.Context, metrics []state.Metrics) (hooks error) {
	t.late = append(t.late, metrics...)
	for len(t.late) > 0 {
		m := t.late[0]
		given, cost := t.meter.end(t.state, m, len(t.late))
		t.late = t.late[1:]
		t.run.Tokens += m.Tokens
		t.window.add(m.Loss)
		t.run.Window = t.window.losses
		limits := guard{t.config.Spikes}.limits(t.run.Guard, m.Step)
		t.run.Guard = guard{t.config.Spikes}.after(t.run.Guard, m)
		scale := 0.0
		if t.config.State.RoundProducts {
			scale = scaleAt(t.run.Scale, m.Step)
			t.run.Scale = scaled(t.run.Scale, m)
		}
		t.last = Metrics{
			Step: m.Step, Loss: Number(m.Loss), LearningRate: Number(m.LearningRate), GradNorm: Number(m.GradNorm), GradNormClipped: t.config.clipped(m.GradNorm),
			Tokens: t.run.Tokens, Epoch: Number(given.epoch), Skipped: m.Skipped, UpdateNorm: Number(m.UpdateNorm), LeftOut: leftOut(m),
			Figures: t.config.figures(m.Means), Watched: t.watching.figures(m.Step), Scale: Number(scale), Cost: cost,
		}
		t.last.Routing, t.last.ExpertTokens = t.config.routing(m)
		if r := t.rollouts; r != nil {
			if r.overComputed(m.Step, t.last.Figures); r.Updates == 1 {
				r.compare(m.Step, t.last.Figures["old_difference_rms"])
			}
			t.last.Rollout, t.last.RolloutMS = r.figures[m.Step], Number(milliseconds(r.took[m.Step]))
			delete(r.figures, m.Step)
			delete(r.took, m.Step)
		}
		if t.run.Guard != nil {
			t.last.Spikes = t.run.Guard.Spikes
		}
		line := t.last
		e := Event{Kind: Stepped, Metrics: &line, seen: seen{metrics: t.last, mean: Number(t.window.mean())}}
		e.Written = m.Step%t.config.LogEvery == 0 || m.Step == t.config.Steps || line.Watched != nil || line.Rollout != nil || line.LeftOut != ""
		err := t.tell(ctx, e)
		if err != nil && !isSound(err) {
			return err
		}
		hooks = errors.Join(hooks, err)
		if err := t.checkDivergence(ctx, m, limits, scale); err != nil {
			return err
		}
	}
	return hooks
}

// due evaluates, samples and saves where the state's step asks for it and it has not been done.
func (t *trainer) due(ctx context.Context) error {
	if err := t.finishSave(ctx, false); err != nil {
		return err
	}
	c, step := t.config, t.state.Step()
	at := func(every, done int64) bool {
		return step > 0 && done != step && (t.ends() || every > 0 && step%every == 0)
	}
	evaluate := c.evaluates() && at(c.EvalEvery, t.evaluated)
	sample := func() bool {
		return c.Sample.Tokens > 0 && at(c.SampleEvery, t.sampled) || step == 0 && c.samplesBefore() && t.sampled != 0
	}
	ask := len(c.Asked) > 0 && (at(c.EvalEvery, t.asked) || step == 0 && c.samplesBefore() && t.asked != 0)
	save, _ := t.saveDue()
	generate := t.rollouts != nil && t.rollouts.due()
	if !evaluate && !sample() && !ask && !save && !generate {
		return nil
	}
	if err := t.drain(ctx); err != nil {
		return err
	}
	defer t.meter.goOn()
	look := func() error {
		if evaluate {
			if err := t.evaluate(ctx); err != nil {
				return err
			}
		}
		if sample() { // the evaluation may have made this step the last
			if err := t.sample(ctx); err != nil {
				return err
			}
		}
		if ask {
			return t.ask(ctx)
		}
		return nil
	}
	if evaluate || sample() || ask {
		if err := t.state.Evaluated(ctx, look); err != nil {
			return err
		}
	}
	// An evaluation makes a step due again that was saved without it.
	if due, temporary := t.saveDue(); due {
		if err := t.save(ctx, temporary); err != nil {
			return err
		}
	}
	if generate && !t.ends() { // behind the save: a run that goes on from it makes the same
		return t.generate(ctx)
	}
	return nil
}

// samplesBefore says that a run samples before its first step: what its model wrote before it was trained here.
func (c Config) samplesBefore() bool { return c.Sample.Tokens > 0 && c.From != "" }

func (t *trainer) evaluate(ctx context.Context) error {
	if err := t.tell(ctx, Event{Kind: Evaluating}); err != nil {
		return err
	}
	defer t.times.span(spanEvaluation)()
	begin, step := time.Now(), t.state.Step()
	r, figures, err := t.measure(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	m := EvalMetrics{Step: step, Loss: Number(r.Loss), Tokens: r.Tokens, MS: Number(milliseconds(took)), Rollout: figures}
	if figures == nil {
		m.Figures = t.config.figures(r.Means)
	}
	if t.config.State.Optimizer.Options.Average != nil {
		m.Weights = trainedWeights
		if t.state.Averaged() {
			m.Weights = averagedWeights
		}
	}
	hooks := t.tell(ctx, Event{Kind: Evaluated, Eval: &m, seen: seen{eval: r, took: took}})
	if hooks != nil && !isSound(hooks) {
		return hooks
	}
	t.evaluated, t.evalLoss = step, r.Loss
	if finite(r.Loss) && (t.run.BestStep == 0 || r.Loss < t.run.BestLoss) {
		t.run.BestStep, t.run.BestLoss = step, r.Loss
	}
	if finite(r.Loss) {
		t.run.EvalStep, t.run.EvalLoss = step, r.Loss
	}
	t.saves.forget(step) // what was saved before a stop does not know of this evaluation
	return hooks
}

// measure evaluates the loss, or rewards of what the model draws, which then have figures.
func (t *trainer) measure(ctx context.Context) (r state.EvalResult, figures map[string]Number, err error) {
	if t.rollouts != nil {
		return t.evaluateRewards(ctx)
	}
	show := func(done, all int) { t.display.Busy(spanEvaluation, done, all) }
	show(0, t.validation.Batches())
	r, err = t.team.evaluate(ctx, t.state, t.validation, show)
	return r, nil, err
}

func (t *trainer) sample(ctx context.Context) error {
	defer t.times.span(spanSamples)()
	c := t.config
	begin := time.Now()
	var text strings.Builder
	drawn := 0
	err := Continue(t.team.uncancelled(ctx), c.Sample, c.Tokenizer, t.state, func(more string) bool {
		text.WriteString(more)
		drawn = min(drawn+1, c.Sample.Tokens-1)
		t.display.Busy(spanSamples, drawn, c.Sample.Tokens)
		return true
	})
	if errors.Is(err, rollout.ErrNotFinite) { // whether the run has diverged is for its steps to say
		t.sampled = t.state.Step()
		t.say("step %d: no sample: %v", t.sampled, err)
		return nil
	}
	if t.team.note(err) != nil {
		return err
	}
	s := t.sampleOf(c.Sample.Prompt, text.String())
	t.sampled = s.Step
	return t.tell(ctx, Event{Kind: Sampled, Sample: &s, seen: seen{took: time.Since(begin)}})
}

// sampleOf is what the model wrote now.
func (t *trainer) sampleOf(prompt, text string) Sample {
	c := t.config.Sample
	return Sample{
		Step: t.state.Step(), Prompt: prompt, Text: text,
		Temperature: c.Temperature, TopK: c.TopK, TopP: unless1(c.TopP), MinP: c.MinP, Repetition: unless1(c.RepetitionPenalty), Seed: c.Seed,
	}
}

// ask puts the questions of the run to the model.
func (t *trainer) ask(ctx context.Context) error {
	defer t.times.span(spanSamples)()
	c, begin := t.config, time.Now()
	var samples []Sample
	err := Answers(t.team.uncancelled(ctx), c.Sample, c.Tokenizer, t.state, c.Asked, func(i int, a Answer) error {
		t.display.Busy(spanSamples, i, len(c.Asked))
		if a.Err != nil {
			t.say("step %d: no answer to %q: %v", t.state.Step(), c.Ask[i], a.Err)
			return nil
		}
		s := t.sampleOf(c.Ask[i]+"\n", a.Text)
		s.Asked, s.System = true, c.AskSystem
		samples = append(samples, s)
		return nil
	})
	if t.asked = t.state.Step(); t.team.note(err) != nil {
		return err
	}
	var told []error
	for _, s := range samples {
		told = append(told, t.tell(ctx, Event{Kind: Sampled, Sample: &s, seen: seen{took: time.Since(begin) / time.Duration(len(samples))}}))
	}
	return errors.Join(told...)
}

func (t *trainer) result() Result {
	r := Result{
		Step: t.state.Step(), Resumed: t.resumed, Loss: t.window.mean(), EvalLoss: t.evalLoss, BestLoss: math.NaN(),
		BestStep: t.run.BestStep, Checkpoint: t.checkpoint, Times: t.times.list(),
	}
	r.Reason, _ = t.reason(nil)
	if r.BestStep > 0 {
		r.BestLoss = t.run.BestLoss
	}
	return r
}

func (t *trainer) release() {
	if t.saves.saver != nil {
		t.saves.saver.Wait()
	}
	if t.dir != nil {
		defer t.dir.release()
	}
	if t.loader != nil {
		t.loader.Close()
	}
	t.histograms.release()
	t.journal.close()
	if t.state != nil {
		t.state.Release()
	}
}
