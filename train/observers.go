package train

import (
	"errors"
	"time"

	"gputrain/state"
)

// An observer follows a run for the run itself. It is told of every event after the hooks are, and also after one of them has failed. Its error ends
// the run, and the observers after it are not told.
type observer interface {
	observe(e Event) error
}

// seen is what an event is about, as it was measured: whatever hooks have made of what is written.
type seen struct {
	metrics Metrics          // Stepped
	mean    Number           // Stepped: of the losses of the last steps
	eval    state.EvalResult // Evaluated
	took    time.Duration    // Evaluated, Sampled
}

// journal writes the logs of a run directory. One of a rank that writes nothing has none.
type journal struct{ metrics, samples, histograms *lineLog }

func (j *journal) observe(e Event) error {
	switch {
	case e.Kind == Stepped && e.Written:
		return j.metrics.write(*e.Metrics)
	case e.Kind == Evaluated:
		return j.metrics.write(*e.Eval)
	case e.Kind == Sampled:
		return j.samples.write(*e.Sample)
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
	return errors.Join(j.metrics.sync(), j.samples.sync(), j.histograms.sync())
}

func (j *journal) close() {
	for _, l := range []*lineLog{j.metrics, j.samples, j.histograms} {
		if l != nil {
			_ = l.close()
		}
	}
}
