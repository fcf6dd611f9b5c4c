package train

import (
	"context"
	"time"

	"gputrain/data"
)

// BatchSource hands out the batches of a run, each with the place where the next one begins (data.Batch.State). A *data.Loader is one.
type BatchSource interface {
	// Next waits for a batch, at most until ctx ends.
	Next(ctx context.Context) (data.Batch, error)
	Close()
}

// openBatches makes what the loop takes its batches from, from the run's place on.
func (t *trainer) openBatches() (err error) {
	c := t.config
	for _, note := range c.Notes {
		t.say("data: %s", note)
		t.facts.add("data", "%s", note)
	}
	if c.Batches != nil {
		t.loader, err = c.Batches(t.run.Data)
		return err
	}
	loader, err := data.NewLoader(c.Train, data.LoaderConfig{
		Context: c.State.Sequence, Batch: c.State.Batch * c.State.Accumulate, Seed: c.State.Seed, Prefetch: c.Prefetch, State: t.run.Data,
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
