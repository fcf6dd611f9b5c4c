package train

import (
	"fmt"
	"strings"
	"time"
)

// display tells whoever looks on where a run is, and how long the rest of it takes.
type display struct {
	Progress
	config   Config
	times    *times
	begun    int64     // the step that this process began at
	drawn    bool      // this process has made a generation
	reward   *Number   // of the newest; nil: it has none
	forecast forecast  // before the first step; later what is known of evaluations and samples
	recent   []Metrics // the last windowSize metrics of this process
}

func (d *display) say(format string, args ...any) { d.Line(fmt.Sprintf(format, args...)) }

func (d *display) observe(e Event) error {
	switch e.Kind {
	case Stepped:
		m := e.seen.metrics
		d.recent = append(d.recent[max(0, len(d.recent)+1-windowSize):], m)
		s := Status{
			Step: m.Step, Steps: d.config.Steps, Epoch: m.Epoch, Loss: e.seen.mean, LearningRate: m.LearningRate, Reward: d.reward, Left: d.toCome(m.Step).left(),
		}
		s.mean(d.recent)
		d.Step(s)
		d.correct(m.Step)
	case Evaluated:
		d.forecast.evaluations.each = e.seen.took
		told := fmt.Sprintf("perplexity %.3f", perplexity(e.Eval.Loss))
		loss := d.config.State.Objective.Row()
		if shown := shownFigures(loss, e.Eval.Figures); shown != nil {
			for i, name := range loss.Shown {
				shown[i] = name + " " + shown[i]
			}
			told = strings.Join(shown, ", ")
		}
		if e.Eval.Weights == averagedWeights {
			told = "averaged weights, " + told
		}
		if e.Eval.Rollout != nil {
			d.say("step %d: validation reward %s (%s %s)", e.Step, rewardsText(e.Eval.Rollout), grouped(e.seen.eval.Tokens), named(e.seen.eval.Tokens, loss.Counts))
			break
		}
		d.say("step %d: validation loss %.4f (%s, %s %s)", e.Step, e.seen.eval.Loss, told, grouped(e.seen.eval.Tokens), named(e.seen.eval.Tokens, loss.Counts))
	case Generated:
		d.generated(e)
	case Sampled:
		d.forecast.samples.each = e.seen.took
		if !e.Sample.Asked { // whoever asks says so elsewhere
			d.say("step %d: a sample:\n%s", e.Sample.Step, indented(e.Sample.Prompt+e.Sample.Text))
		}
	}
	return nil
}

// generated tells of the first generation of this process, by which the forecast is then; of others lines of steps tell the reward.
func (d *display) generated(e Event) {
	first := !d.drawn
	d.drawn, d.reward = true, nil
	if reward, there := e.seen.rollout["reward"]; there {
		d.reward = &reward
	}
	if !first {
		d.forecast.generations.each = e.seen.took
		return
	}
	before := d.toCome(e.Step)
	d.forecast.generations.each = e.seen.took
	d.say("generation of step %d: reward %s, in %s", e.Step+1, rewardsText(e.seen.rollout), durationText(e.seen.took))
	if now := d.toCome(e.Step); otherwise(now, before) {
		d.say("after a generation: %s", now.text())
	}
}

// toCome is the forecast of what is left to do after a step, by what steps have taken of late: the first of this process, which also compiles,
// counts only while there is no other.
func (d *display) toCome(step int64) forecast {
	f := d.forecast
	f.count(d.config, step)
	f.spent, f.compiling = whole(d.times.list()), 0
	lines := d.recent
	if len(lines) > 1 && lines[0].Step == d.begun+1 {
		lines = lines[1:]
	}
	sum := 0.0
	for _, m := range lines {
		sum += float64(m.StepMS)
	}
	if len(lines) > 0 && step > d.begun+1 {
		f.steps.each = time.Duration(sum / float64(len(lines)) * float64(time.Millisecond))
	}
	return f
}

// A forecast is told once more after some steps where it has turned out otherwise by more than a share.
const (
	forecastSteps = 10
	forecastShare = 0.1
)

// correct tells the forecast anew.
func (d *display) correct(step int64) {
	if step != d.begun+forecastSteps {
		return
	}
	if now := d.toCome(step); otherwise(now, d.forecast) {
		d.say("after %d steps: %s", forecastSteps, now.text())
	}
}

// otherwise tells whether a run takes another time than it was told to.
func otherwise(now, before forecast) bool {
	off := float64(now.spent+now.left()) / float64(before.spent+before.left())
	return off < 1-forecastShare || off > 1+forecastShare
}
