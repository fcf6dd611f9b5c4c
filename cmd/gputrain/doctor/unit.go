package doctor

import (
	"context"
	"fmt"

	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/kron"
	"gputrain/optim"
)

// unitCase is case.json of kind wk_unit: the norm bound of symmetric and of skew matrices, and the turn towards a symmetric one.
type unitCase struct {
	Entries []struct {
		Index int      `json:"index"`
		N     int      `json:"n"`
		Key   prng.Key `json:"key"`
	} `json:"entries"`
	Tolerance tolerance `json:"tolerance"`
}

// runUnit gives each matrix of a case to the device.
func runUnit(ctx context.Context, dev *gpu.Device, c *goldenCase) (*comparison, error) {
	var file unitCase
	if err := c.decode(&file); err != nil {
		return nil, err
	}
	if len(file.Entries) == 0 {
		return nil, fmt.Errorf("entries: found none")
	}
	seen := &comparison{}
	for _, e := range file.Entries {
		matrix := func(name string) ([]float32, error) {
			values := c.floats(fmt.Sprintf("%s/%d", name, e.Index))
			if len(values) != e.N*e.N {
				c.note(fmt.Errorf("tensor %s/%d: %d elements, want a square of %d", name, e.Index, len(values), e.N))
			}
			return values, c.err
		}
		keys := []prng.Key{e.Key}
		for _, form := range []string{"sym", "skew"} {
			name := fmt.Sprintf("expect/%d/norm_lower_bound_%s", e.Index, form)
			if _, _, ok := c.tensors.Info(name); !ok {
				continue // a single number is its own transpose, and skew only if it is 0
			}
			a, err := matrix(form)
			if err != nil {
				return nil, err
			}
			got, err := kron.Bounds(ctx, dev, [][]float32{a}, e.N, keys, form == "skew")
			if err != nil {
				return nil, err
			}
			seen.tensor(name, got, c.floats(name), file.Tolerance)
		}
		q, err := matrix("q")
		if err != nil {
			return nil, err
		}
		got, err := kron.Procrustes(ctx, dev, [][]float32{q}, e.N, keys)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("expect/%d/procrustes", e.Index)
		seen.tensor(name, got[0], c.floats(name), file.Tolerance)
	}
	return seen, c.err
}

// runSchedule evaluates schedules at update indices, in eformer numerics.
func runSchedule(_ context.Context, _ *gpu.Device, c *goldenCase) (*comparison, error) {
	var file struct {
		Schedules []struct {
			Schedule  optim.ScheduleConfig `json:"schedule"`
			At        []int64              `json:"at"`
			LR        []float64            `json:"lr"`
			Tolerance tolerance            `json:"tolerance"`
		} `json:"schedules"`
	}
	if err := c.decode(&file); err != nil {
		return nil, err
	}
	seen := &comparison{}
	for i, s := range file.Schedules {
		schedule, err := s.Schedule.Build(optim.EFormer)
		if err != nil {
			return nil, err
		}
		if len(s.At) != len(s.LR) {
			return nil, fmt.Errorf("schedules[%d]: %d rates at %d updates", i, len(s.LR), len(s.At))
		}
		for k, at := range s.At {
			where := fmt.Sprintf("schedules[%d] %s update %d", i, s.Schedule.Type, at)
			seen.near(where, schedule(at), s.LR[k], s.Tolerance)
		}
	}
	return seen, nil
}
