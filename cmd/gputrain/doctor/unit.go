package doctor

import (
	"context"
	"fmt"
	"slices"

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
		keys := []prng.Key{e.Key}
		for _, what := range []struct {
			given, expected string
			found           func(matrix []float32) ([]float32, error)
		}{
			{"sym", "norm_lower_bound_sym", func(m []float32) ([]float32, error) { return kron.Bounds(ctx, dev, [][]float32{m}, e.N, keys, false) }},
			{"skew", "norm_lower_bound_skew", func(m []float32) ([]float32, error) { return kron.Bounds(ctx, dev, [][]float32{m}, e.N, keys, true) }},
			{"q", "procrustes", func(m []float32) ([]float32, error) {
				got, err := kron.Procrustes(ctx, dev, [][]float32{m}, e.N, keys)
				return slices.Concat(got...), err
			}},
		} {
			name := fmt.Sprintf("expect/%d/%s", e.Index, what.expected)
			if _, _, ok := c.tensors.Info(name); !ok && what.given != "q" {
				continue // a single number is its own transpose, and skew only if it is 0
			}
			given := fmt.Sprintf("%s/%d", what.given, e.Index)
			values := c.floats(given)
			if len(values) != e.N*e.N {
				c.note(fmt.Errorf("tensor %s: %d elements, want a square of %d", given, len(values), e.N))
			}
			if c.err != nil {
				return nil, c.err
			}
			got, err := what.found(values)
			if err != nil {
				return nil, err
			}
			seen.tensor(name, got, c.floats(name), file.Tolerance)
		}
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
