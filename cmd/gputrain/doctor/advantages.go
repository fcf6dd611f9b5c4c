package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/gpu"
	"gputrain/model"
)

// rewarding are the fields of cases that say how rewards become advantages.
type rewarding struct {
	Generations int       `json:"num_generations"`
	Scale       string    `json:"scale_rewards"`
	Aggregation string    `json:"multi_objective_aggregation"` // sum_then_normalize or normalize_then_sum
	Weights     []float64 `json:"reward_weights"`
}

// advantages are those of the rewards of completions, which are NaN where a function said nothing.
func (r rewarding) advantages(rewards []numbers) (a model.Advantages, err error) {
	of := model.Rewarding{Group: r.Generations, Weights: r.Weights, Scale: r.Scale}
	switch r.Aggregation {
	case "", "sum_then_normalize":
	case "normalize_then_sum":
		of.Apart = true
	default:
		return a, fmt.Errorf("multi_objective_aggregation: found %q, wanted sum_then_normalize or normalize_then_sum", r.Aggregation)
	}
	said := make([][]float64, len(rewards))
	for i, row := range rewards {
		said[i] = row
	}
	return of.Advantages(said)
}

// figuresOf are the metrics that follow from rewards alone.
func figuresOf(a model.Advantages) map[string]numbers {
	return map[string]numbers{
		"reward": {a.Reward}, "reward_std": {a.Deviation}, "reward_means": a.Means, "reward_stds": a.Deviations, "zero_std_share": {a.FlatShare},
	}
}

// runAdvantages compares the advantages of tables of rewards, and their figures.
func runAdvantages(_ context.Context, _ *gpu.Device, c *goldenCase) (*comparison, error) {
	var file struct {
		Entries   []json.RawMessage `json:"entries"`
		Tolerance tolerance         `json:"tolerance"`
	}
	if err := c.decode(&file); err != nil {
		return nil, err
	}
	if len(file.Entries) == 0 {
		return nil, fmt.Errorf("case.json: entries: found none")
	}
	seen := &comparison{}
	for i, raw := range file.Entries {
		var e struct {
			rewarding
			Rewards []numbers `json:"rewards"`
		}
		wanted := map[string]json.RawMessage{}
		if err := cmp.Or(json.Unmarshal(raw, &e), json.Unmarshal(raw, &wanted)); err != nil {
			return nil, fmt.Errorf("case.json: entry %d: %w", i, err)
		}
		a, err := e.advantages(e.Rewards)
		if err != nil {
			return nil, fmt.Errorf("case.json: entry %d: %w", i, err)
		}
		found := figuresOf(a)
		found["advantages"] = a.Of
		for _, name := range slices.Sorted(maps.Keys(found)) {
			var want numbers
			if err := json.Unmarshal(wanted[name], &want); err != nil {
				return nil, fmt.Errorf("case.json: entry %d: %s: %w", i, name, err)
			}
			where := fmt.Sprintf("entry %d %s", i, name)
			if want != nil && len(want) != len(found[name]) {
				seen.fail(fmt.Sprintf("%s: %d numbers, want %d", where, len(found[name]), len(want)))
				continue
			}
			for j, w := range want {
				if !math.IsNaN(w) {
					seen.near(where, found[name][j], w, file.Tolerance)
				}
			}
		}
	}
	return seen, nil
}
