package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gputrain/model"
	"gputrain/run/grpo"
	"gputrain/state"
)

// Hook is told what happens in a run. Hooks are called in the order of Config.Hooks, on the goroutine of the loop, between steps. An error
// from one ends the run with it, after the steps in flight have been finished and what has been reached is saved; one that matches
// ErrStopped is a wanted stop. After an error hooks are told of Ended alone.
//
// A hook that keeps a log of its own has a method Sync() error besides. It is called before a checkpoint becomes one, on another goroutine,
// so that the log is durable as far as a resumed run needs it; and such a hook is told of everything, also after an error of another, since
// the steps in flight are still to be logged.
type Hook interface {
	Event(ctx context.Context, e Event) error
}

// HookFunc is a function as a Hook.
type HookFunc func(ctx context.Context, e Event) error

// Event calls f.
func (f HookFunc) Event(ctx context.Context, e Event) error { return f(ctx, e) }

// Event is one thing that happened. The fields that belong to its kind are set. Metrics, Eval, Sample and Histograms are not yet written: what a hook
// changes in them is what hooks after it see and what is written; the run itself goes by what was measured.
type Event struct {
	Kind       eventKind
	Step       int64        // steps submitted so far; Saved: that of the checkpoint, which may be some steps back
	Metrics    *Metrics     // Stepped: of a step up to two before Step, since metrics are read late
	Written    bool         // Stepped: metrics.jsonl is to have a line of it, see Config.LogEvery
	Histograms []Histogram  // Counted: of a step up to two before Step
	Eval       *EvalMetrics // Evaluated
	Sample     *Sample      // Sampled
	Rollouts   []grpo.Line  // Generated: what is logged of it
	Checkpoint string       // Saved: its directory
	Reason     Kind         // Ended
	Err        error        // Ended: what the run ends with; nil when it is done
	BestStep   int64        // Ended: whose evaluation had the lowest loss; 0: none had one
	State      State        // a *state.TrainState in a run on one device
	Progress   Progress     // for work of a hook that takes its time, and to be cleared before a hook writes to the same terminal

	seen    seen
	replace func(ctx context.Context, with State) error
}

// Replace lets the run go on with another state of the same model and step, which it releases at its end. It waits for the steps of the former one,
// which belongs to the caller from then on; their metrics come as Stepped after this event.
func (e Event) Replace(ctx context.Context, with State) error {
	if e.replace == nil {
		return fmt.Errorf("train: replace the state: found none in this event, wanted one of a run under way")
	}
	return e.replace(ctx, with)
}

// eventKind tells events apart.
type eventKind int

// The kinds, in the order in which a run first meets them.
const (
	Started    eventKind = iota // before the first step
	StepBegin                   // before every step
	StepEnd                     // a step has been submitted: the device's trees of gradients are its, once it has been waited for
	Stepped                     // the metrics of a step have been read
	Counted                     // the histograms of a step have been read
	Generated                   // a generation has been made, and none of it is learned yet
	Evaluating                  // before an evaluation
	Evaluated
	Sampled
	Saved // a checkpoint is there and durable
	Ended // nothing more will happen but the report; of a run that Started, once, however it ends
)

// tell tells all hooks, each with the state that those before it have left, and then the observers. The error of an observer is the only one.
func (t *trainer) tell(ctx context.Context, e Event) (err error) {
	if e.Kind != Saved {
		e.Step = t.state.Step()
	}
	e.replace, e.Progress = t.replace, t.display.Progress
	end := func() {}
	if len(t.config.Hooks) > 0 {
		end = t.times.span(spanHooks)
	}
	for _, h := range t.config.Hooks {
		if _, logs := h.(logger); t.hookFailed && e.Kind != Ended && !logs {
			continue
		}
		e.State = t.state
		if failed := h.Event(ctx, e); failed != nil {
			t.hookFailed = true
			err = errors.Join(err, soundError{fmt.Errorf("train: hook: %w", failed)})
		}
	}
	end()
	for _, o := range t.observers {
		if failed := o.observe(e); failed != nil {
			return failed
		}
	}
	return err
}

// logger is a hook that keeps a log.
type logger interface{ Sync() error }

// syncHooks makes durable what hooks have logged.
func (t *trainer) syncHooks() (err error) {
	for _, h := range t.config.Hooks {
		if l, ok := h.(logger); ok {
			if failed := l.Sync(); failed != nil {
				err = errors.Join(err, logError{failed})
			}
		}
	}
	return err
}

// sameModel compares a state's model with a definition, as far as it tells what it is. The tokens that end its answers make it no other.
func sameModel(s State, def model.Definition) bool {
	of, tells := s.(interface{ Definition() model.Definition })
	if !tells {
		return true
	}
	found, err := model.ConfigEnding(model.TextPart(of.Definition()), "F32", []int32{})
	wanted, other := model.ConfigEnding(model.TextPart(def), "F32", []int32{})
	return err == nil && other == nil && bytes.Equal(found, wanted)
}

// replace makes the run go on with another state. What was measured of the former waits for the next take.
func (t *trainer) replace(ctx context.Context, with State) error {
	switch {
	case t.config.Ranks != nil:
		return fmt.Errorf("train: replace the state: found %d ranks, wanted one process: the others would go on with theirs", t.config.Ranks.Size())
	case with == nil:
		return fmt.Errorf("train: replace the state: found none, wanted one of step %d", t.state.Step())
	case with.Step() != t.state.Step():
		return fmt.Errorf("train: replace the state: found one of step %d, wanted step %d", with.Step(), t.state.Step())
	case !sameModel(with, t.config.State.Definition):
		return fmt.Errorf("train: replace the state: found one of another model, wanted one of the run's, which could not go on from its checkpoints")
	}
	metrics, err := t.state.Drain(ctx)
	if err == nil {
		err = t.histograms.read(ctx)
	}
	if err != nil {
		return err
	}
	t.state, t.late = with, slices.Concat(t.late, metrics)
	if t.config.HistogramEvery > 0 {
		_, _, err = t.histograms.build(ctx, with)
	}
	return err
}

// An observer follows a run for the run itself. It is told of every event after the hooks are, and also after one of them has failed. Its error ends
// the run, and the observers after it are not told.
type observer interface {
	observe(e Event) error
}

// seen is what an event is about, as it was measured: whatever hooks have made of what is written.
type seen struct {
	metrics Metrics           // Stepped
	mean    Number            // Stepped: of the losses of the last steps
	eval    state.EvalResult  // Evaluated
	rollout map[string]Number // Generated: its figures
	took    time.Duration     // Evaluated, Sampled, Generated
}

// journal writes the logs of a run directory. One of a rank that writes nothing has none.
type journal struct{ metrics, samples, histograms, rollouts *lineLog }

func (j *journal) observe(e Event) error {
	switch {
	case e.Kind == Stepped && e.Written:
		return j.metrics.write(*e.Metrics)
	case e.Kind == Evaluated:
		return j.metrics.write(*e.Eval)
	case e.Kind == Sampled:
		return j.samples.write(*e.Sample)
	case e.Kind == Generated:
		for _, l := range e.Rollouts {
			if err := j.rollouts.write(l); err != nil {
				return err
			}
		}
	case e.Kind == Counted:
		for _, h := range e.Histograms {
			if err := j.histograms.write(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// sync makes all lines durable.
func (j *journal) sync() error {
	return errors.Join(j.metrics.sync(), j.samples.sync(), j.histograms.sync(), j.rollouts.sync())
}

func (j *journal) close() {
	for _, l := range []*lineLog{j.metrics, j.samples, j.histograms, j.rollouts} {
		if l != nil {
			_ = l.close()
		}
	}
}
