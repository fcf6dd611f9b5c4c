package tensorboard

import (
	"context"
	"errors"
	"path/filepath"

	"gputrain/run/train"
)

// NewHook writes what the run of a run directory measures, where Config.LogEvery, HistogramEvery and so on have it, into files in
// train.TensorBoardDir below it. It stands last in Config.Hooks, so that it sees what the others have left of the figures. Numbers are
// float32 there, as TensorBoard has them. An error of writing ends the run, which saves: the files lie beside metrics.jsonl, whose disk has
// then no room for that either.
func NewHook(runDir string) train.Hook {
	return &hook{dir: filepath.Join(runDir, train.TensorBoardDir)}
}

type hook struct {
	dir    string
	writer *writer // of a run that has started
}

// Event writes what belongs to an event.
func (h *hook) Event(_ context.Context, e train.Event) error {
	switch e.Kind {
	case train.Started:
		w, err := Create(h.dir, e.Step+1)
		if err != nil {
			return err
		}
		h.writer = w
	case train.Stepped:
		if e.Written {
			return h.figures(e.Metrics.Step, e.Metrics)
		}
	case train.Evaluated:
		return h.figures(e.Eval.Step, e.Eval)
	case train.Counted:
		var events []Event
		for _, x := range e.Histograms {
			if n := len(events); n == 0 || events[n-1].Step != x.Step {
				events = append(events, Event{WallTime: now(), Step: x.Step})
			}
			last := &events[len(events)-1]
			last.Values = append(last.Values, distribution(x)...)
		}
		return h.writer.Write(events...)
	case train.Sampled:
		return h.writer.Write(Event{WallTime: now(), Step: e.Sample.Step, Values: []Value{sample(*e.Sample)}})
	case train.Ended:
		if h.writer != nil {
			return errors.Join(h.Sync(), h.writer.Close())
		}
	}
	return nil
}

// figures writes the numbers of a line of metrics.jsonl.
func (h *hook) figures(step int64, line any) error {
	values, err := scalars(line)
	if err != nil {
		return err
	}
	return h.writer.Write(Event{WallTime: now(), Step: step, Values: values})
}

// Sync makes the events durable before the checkpoint that they belong to.
func (h *hook) Sync() error {
	if h.writer == nil { // the run could not start
		return nil
	}
	return h.writer.Sync()
}
