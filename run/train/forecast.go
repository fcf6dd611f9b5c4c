package train

import (
	"fmt"
	"strings"
	"time"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state"
)

// A forecast is how long the rest of a run takes: what there is to do, and how long each takes.
type forecast struct {
	steps, evaluations, samples, checkpoints errand
	generations                              errand        // of completions to learn from
	spent, compiling                         time.Duration // before the first step; compiling is a part of it
	start                                    time.Duration // what is yet to come before the first step, as far as counts tell
}

// errand is something that is done many times.
type errand struct {
	many int64
	each time.Duration
}

func (e errand) all() time.Duration { return time.Duration(float64(e.many) * float64(e.each)) }

// left is the time that what there is to do takes.
func (f forecast) left() time.Duration {
	return f.start + f.steps.all() + f.generations.all() + f.evaluations.all() + f.samples.all() + f.checkpoints.all()
}

// text is the forecast in one line.
func (f forecast) text() string {
	text := f.each()
	if f.compiling > 0 {
		text += ", compiling " + durationText(f.compiling)
	}
	return fmt.Sprintf("the run takes about %s: %s", f.whole(), text)
}

// each is how often everything is done, and how long it takes.
func (f forecast) each() string {
	parts := []string{f.steps.text("step")}
	for _, e := range []struct {
		errand
		name string
	}{{f.generations, "generation"}, {f.evaluations, "evaluation"}, {f.samples, "sample"}, {f.checkpoints, "checkpoint"}} {
		if e.many > 0 {
			parts = append(parts, e.text(e.name))
		}
	}
	return strings.Join(parts, ", ")
}

// whole is the time of all the run.
func (f forecast) whole() string { return durationText(f.spent + f.left()) }

func (e errand) text(name string) string {
	return fmt.Sprintf("%s %s of %s", grouped(e.many), named(e.many, name+"s"), durationText(e.each))
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
	if f.generations.many = 0; c.learnsRollouts() {
		u := int64(c.Rollouts.Updates)
		f.generations.many = max(0, (c.Steps+u-1)/u-(from+u-1)/u)
	}
	if c.evaluates() {
		f.evaluations.many = timesDue(from, c.Steps, c.EvalEvery)
	}
	if c.Sample.Tokens > 0 {
		f.samples.many = timesDue(from, c.Steps, c.SampleEvery)
	}
	if c.samplesBefore() && from == 0 {
		f.samples.many++
	}
	f.samples.many += int64(len(c.Asked)) * timesDue(from, c.Steps, c.EvalEvery)
	if c.From != "" && from == 0 {
		f.samples.many += int64(len(c.Asked))
	}
	if f.samples.many += int64(c.Answers); from == 0 {
		f.samples.many += int64(c.Answers)
	}
	f.checkpoints.many = savesDue(c.SaveEvery, from, c.Steps)
}

// savesDue is the number of checkpoints after step from up to step steps, which is saved in any case.
func savesDue(v intervals, from, steps int64) (n int64) {
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

// What a checkpoint keeps training for is its copy to the host, at about this many bytes a second; it is written beside.
const copiedASecond = 5e8

// paced is what a typical adapter of that kind would do if it made so many operations a second.
func paced(a gpu.Adapter, flops float64) gpu.Speed {
	s := a.Typical()
	return s.Times(flops / s.FLOPS)
}

// ofPeak is the share of their peak that processors reach in a step.
const ofPeak = 0.5

// Expected says about how long a run takes that has spent so much, and each of what it does, before anything of it is measured: on an adapter with that peak in f32 products, to which a
// step gives these submits. What drivers compile is not in it.
func Expected(c Config, spent time.Duration, a gpu.Adapter, peak float64, submits [][]gpu.Planned) (whole, each string, err error) {
	job, err := state.NewJob(c.State)
	if err != nil {
		return "", "", err
	}
	flops, err := job.FLOPs()
	if err != nil {
		return "", "", err
	}
	all := 0.0
	for _, n := range flops {
		all += float64(n)
	}
	f, err := guessed(c, 0, all, commandsOf(submits), paced(a, peak*ofPeak))
	f.spent = spent
	return f.whole(), f.each(), err
}

// guessed is a forecast for devices of that speed, whose passes of an update are so many operations and whose step is so many commands.
func guessed(c Config, from int64, flops float64, commands int, speed gpu.Speed) (f forecast, err error) {
	f.count(c, from)
	overhead := time.Duration(float64(commands) * speed.Command * float64(time.Second))
	passes := time.Duration(flops/speed.FLOPS*float64(time.Second)) + overhead
	if err := f.update(c.State, passes, speed); err != nil {
		return f, err
	}
	f.drawing(c, passes, overhead, speed)
	if c.evaluatesLoss() && f.evaluations.many > 0 {
		e, err := c.evaluation()
		if err != nil {
			return f, err
		}
		f.evaluations.each = evaluating(c.State, passes, e.Batches())
	}
	bytes := 4 * float64(model.Parameters(c.State.Definition))
	if f.samples.many > 0 { // token by token, each a forward pass that reads all parameters
		token := overhead/3 + time.Duration(bytes/speed.BytesPerSecond*float64(time.Second))
		f.samples.each = time.Duration(c.Sample.Tokens) * token
	}
	f.start = f.rehearsing(c.Sample.Tokens) + time.Duration(bytes/copiedASecond*float64(time.Second))
	return f, nil
}

// rehearsing is about how long it takes to measure each, of samples of so many tokens.
func (f forecast) rehearsing(sampled int) (sum time.Duration) {
	tried := f.samples
	tried.each = tried.each * time.Duration(min(sampled, rehearsedTokens)) / time.Duration(max(1, sampled))
	each := []errand{f.steps, tried}
	if f.generations.each == 0 { // evaluations of what is drawn are not tried
		each = append(each, f.evaluations)
	}
	for _, e := range each {
		switch {
		case e.many == 0:
		case e.each >= measureFor:
			sum += e.each
		default:
			sum += e.each + max(e.each, min(measureMost*e.each, measureAgain))
		}
	}
	return sum
}

// ownFLOPs are the operations of this rank's passes in an update, flops of which all have, or of one batch where it has none.
func ownFLOPs(c state.Config, flops float64) float64 {
	return flops * float64(max(1, share(c).Count)) / float64(c.Microbatches)
}

// share are the batches of an update that this rank computes.
func share(c state.Config) state.Span {
	rank, replicas := c.Mesh.Replica()
	return state.Share(c.Microbatches, rank, replicas)
}

// update sets the time of a step, whose passes take so long at that speed, and that of a checkpoint.
func (f *forecast) update(c state.Config, passes time.Duration, speed gpu.Speed) error {
	job, err := state.NewJob(c)
	if err != nil {
		return err
	}
	tx, err := job.Transform()
	if err != nil {
		return err
	}
	cost, parameters := tx.Cost(), int(model.Parameters(c.Definition))
	f.steps.each = passes + time.Duration(speed.Seconds(cost.Work(parameters))*float64(time.Second))
	f.checkpoints.each = time.Duration(float64(parameters) * (4 + cost.StateBytes) / copiedASecond * float64(time.Second))
	return nil
}

// drawing sets the times of generations, and of evaluations of rewards, by counts: completions become as long as they may, and rewards cost nothing. The passes
// of an update take so long, a third of them forward, and the commands of one so much of that.
func (f *forecast) drawing(c Config, passes, overhead time.Duration, speed gpu.Speed) {
	if !c.learnsRollouts() {
		return
	}
	_, replicas := c.State.Mesh.Replica()
	positions := float64(max(1, share(c.State).Count) * c.State.Batch * c.State.Sequence)
	parameters := time.Duration(4 * float64(model.Parameters(c.State.Definition)) / speed.BytesPerSecond * float64(time.Second))
	drawn := func(rows int) time.Duration {
		own, atOnce := (rows+replicas-1)/replicas, c.rowsAtOnce()
		token := overhead/3 + max(parameters, time.Duration(float64(passes-overhead)/3*float64(min(own, atOnce))/positions))
		return token * time.Duration((own+atOnce-1)/atOnce*c.Rollouts.Drawing.Tokens)
	}
	f.generations.each = drawn(c.rowsAnUpdate() * c.Rollouts.Updates)
	if c.Rollouts.Updates > 1 { // a pass over all rows before the first
		f.generations.each += passes / 3 * time.Duration(c.Rollouts.Updates)
	}
	if held, are := c.Validation.(*data.Prompts); are {
		f.evaluations.each = drawn(c.heldPrompts(held) * max(1, c.Rollouts.EvalSamples))
	}
}

// evaluating is the time of an evaluation of so many batches where the passes of an update take so long, a third of it forward.
func evaluating(c state.Config, passes time.Duration, batches int) time.Duration {
	return time.Duration(float64(passes) / 3 * float64(batches*c.Evaluation) / float64(max(1, share(c).Count)*c.Batch))
}
