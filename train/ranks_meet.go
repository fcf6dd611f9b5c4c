package train

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// StartPatience is how long ranks wait for others before the first step is measured: what drivers take to compile everything, and what reading a
// checkpoint takes, at most.
const StartPatience = 15 * time.Minute

// Waits for others last as long as what they do, as it is expected, so many times over.
const workPatience = 20

// expect tells the ranks how long what they wait for may take.
func (t *trainer) expect(ctx context.Context) error {
	g := t.config.Ranks
	if g == nil {
		return nil
	}
	f := &t.forecast
	raw, err := json.Marshal([]time.Duration{f.steps.each, f.evaluations.each + f.samples.each + f.checkpoints.each})
	if err != nil {
		return err
	}
	all, err := g.Gather(ctx, "forecast", raw)
	if err != nil {
		return err
	}
	var step, between time.Duration
	for _, one := range all {
		var of []time.Duration
		if err := json.Unmarshal(one, &of); err != nil {
			return fmt.Errorf("train: forecast: %w", err)
		}
		step, between = max(step, of[0]), max(between, of[1])
	}
	f.steps.each = step // all are as slow as the slowest
	g.Expect(workPatience * (step + between))
	return nil
}

// wish is what a rank says before every step.
type wish struct {
	Late bool `json:"late,omitempty"` // it is time for a checkpoint
}

// agree lets the ranks make the next step together, or end together; err is why this one is to end. What all are to do is known behind it.
func (t *trainer) agree(ctx context.Context, err error) error {
	g := t.config.Ranks
	if g == nil {
		return err
	}
	if t.apart {
		g.Fail(err)
		return err
	}
	raw, failed := json.Marshal(wish{Late: t.overdue()})
	if failed != nil {
		return failed
	}
	if wanted := stopOf(ctx, err); wanted != nil {
		err = wanted
	}
	all, err := g.Agree(ctx, err, endWeight(ctx, err), raw)
	if err != nil {
		return likewise(err)
	}
	t.saves.late = false
	for _, one := range all {
		var w wish
		if err := json.Unmarshal(one, &w); err != nil {
			return fmt.Errorf("train: agreement: %w", err)
		}
		t.saves.late = t.saves.late || w.Late
	}
	return nil
}

// conclude ends a run on all ranks for one reason.
func (t *trainer) conclude(ctx context.Context, err error) error {
	return t.config.conclude(ctx, err, t.apart)
}

func (c Config) conclude(ctx context.Context, err error, apart bool) error {
	switch {
	case c.Ranks == nil:
		return err
	case apart:
		c.Ranks.Fail(err)
		return err
	}
	return likewise(c.Ranks.Conclude(ctx, err, endWeight(ctx, err)))
}

// leave waits until rank 0 has written its last file: the end of any rank may be that of all.
func (t *trainer) leave(ctx context.Context) {
	if g := t.config.Ranks; g != nil && !t.apart {
		_, _ = g.Gather(ctx, "end", nil) // the run has ended, whatever comes of it
	}
}
