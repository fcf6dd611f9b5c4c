package train

import (
	"context"
	"fmt"
	"time"

	"gputrain/run/data"
)

// BatchSource hands out the batches of a run, each with the place where the next one begins (data.Batch.State). A *data.Loader is one.
type BatchSource interface {
	// Next waits for a batch, at most until ctx ends, which it does after Config.DataTimeout too.
	Next(ctx context.Context) (data.Batch, error)
	Close()
}

// ownBatches are the caller's: what goes wrong with them is said to be theirs, and one that takes too long is what it is of a loader.
type ownBatches struct {
	BatchSource
	timeout time.Duration // 0: none
	share   *data.Share   // of every batch that this rank takes; nil: all
	place   data.State    // of the next batch
}

func (o *ownBatches) Next(ctx context.Context) (data.Batch, error) {
	waiting := ctx
	if o.timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, o.timeout, &data.TimeoutError{Waited: o.timeout, State: o.place})
		defer cancel()
		waiting = limited
	}
	batch, err := o.BatchSource.Next(waiting)
	switch {
	case err == nil:
		o.place = batch.State
		if s := o.share; s != nil {
			if s.First+s.Rows > batch.Rows {
				return batch, fmt.Errorf("train: batches: found %d rows, wanted those of all ranks", batch.Rows)
			}
			batch = batch.Part(*s)
		}
	case ctx.Err() != nil: // the run is to end
	case waiting.Err() != nil:
		err = context.Cause(waiting)
	default:
		err = fmt.Errorf("train: batches: %w", err)
	}
	return batch, err
}

// openBatches makes what the loop takes its batches from, from the run's place on.
func (t *opening) openBatches(ctx context.Context) (err error) {
	c := t.config
	for _, note := range c.Notes {
		t.note("data", "data: ", note)
	}
	if c.learnsRollouts() {
		return t.openRollouts(ctx)
	}
	if c.Batches != nil {
		source, err := c.Batches(t.run.Data)
		switch {
		case err != nil:
			return fmt.Errorf("train: batches: %w", err)
		case source == nil:
			return fmt.Errorf("train: batches: found no source, wanted one")
		}
		t.loader = &ownBatches{BatchSource: source, timeout: c.DataTimeout, share: c.share(), place: t.run.Data}
		return nil
	}
	loader, err := data.NewLoader(c.Train, data.LoaderConfig{
		Context: c.State.Sequence, Batch: c.State.Batch * c.State.Microbatches, Share: c.share(), Seed: c.State.Seed, Prefetch: c.Prefetch, State: t.run.Data,
		Timeout: c.DataTimeout,
		Slow: func(waited time.Duration) {
			t.say("step %d: waiting for data since %v", t.state.Step()+1, waited.Round(time.Second))
		},
	})
	if err == nil {
		t.loader = loader
	}
	return err
}
