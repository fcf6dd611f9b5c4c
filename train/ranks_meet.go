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

// expect tells the ranks how long a step takes here, and what comes between two, and how long the others have to be waited for. It returns how
// long a step takes on the slowest.
func (m *team) expect(ctx context.Context, step, between time.Duration) (time.Duration, error) {
	if m.group == nil {
		return step, nil
	}
	raw, err := json.Marshal([]time.Duration{step, between})
	if err != nil {
		return 0, err
	}
	all, err := m.group.Gather(ctx, "forecast", raw)
	if err != nil {
		return 0, err
	}
	for _, one := range all {
		var of []time.Duration
		if err := json.Unmarshal(one, &of); err != nil {
			return 0, fmt.Errorf("train: forecast: %w", err)
		}
		step, between = max(step, of[0]), max(between, of[1])
	}
	m.group.Expect(workPatience * (step + between))
	return step, nil
}

// wish is what a rank says before every step.
type wish struct {
	Late bool `json:"late,omitempty"` // it is time for a checkpoint
}

// agree lets the ranks make the next step together, or end together; err is why this one is to end. late says that it is time for a checkpoint: on
// any of them, where it returns.
func (m *team) agree(ctx context.Context, err error, late bool) (bool, error) {
	if m.group == nil {
		return late, err
	}
	if m.apart {
		m.group.Fail(err)
		return false, err
	}
	raw, failed := json.Marshal(wish{Late: late})
	if failed != nil {
		return false, failed
	}
	if wanted := stopOf(ctx, err); wanted != nil {
		err = wanted
	}
	all, err := m.group.Agree(ctx, err, endWeight(ctx, err), raw)
	if err != nil {
		return false, likewise(err)
	}
	for _, one := range all {
		var w wish
		if err := json.Unmarshal(one, &w); err != nil {
			return false, fmt.Errorf("train: agreement: %w", err)
		}
		late = late || w.Late
	}
	return late, nil
}

// end ends a run on all ranks for one reason.
func (m *team) end(ctx context.Context, err error) error {
	switch {
	case m.group == nil:
		return err
	case m.apart:
		m.group.Fail(err)
		return err
	}
	return likewise(m.group.Conclude(ctx, err, endWeight(ctx, err)))
}

// waitForAll waits until rank 0 has written its last file: the end of any rank may be that of all.
func (m *team) waitForAll(ctx context.Context) {
	if m.group != nil && !m.apart {
		_, _ = m.group.Gather(ctx, "end", nil) // the run has ended, whatever comes of it
	}
}
