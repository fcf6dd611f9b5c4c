package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gputrain/run/grpo"
)

// tellRows are the rows of all replicas, in their order, where err keeps none of the ranks.
func tellRows(ctx context.Context, m *team, own []grpo.Row, err error) (rows []grpo.Row, _ error) {
	type told struct { // Prompt is in no file
		Row    grpo.Row `json:"row"`
		Prompt int      `json:"prompt"`
	}
	var tell []told
	if in, _ := m.group.InRow(); in == 0 { // the replica's first rank gives them
		for _, r := range own {
			tell = append(tell, told{r, r.Prompt})
		}
	}
	all, err := tellAll(ctx, m, tell, err)
	for _, t := range slices.Concat(all...) {
		t.Row.Prompt = t.Prompt
		rows = append(rows, t.Row)
	}
	return rows, err
}

// tellAll gives what each rank has to all of them, or ends them together: err is why this one is to end.
func tellAll[T any](ctx context.Context, m *team, own T, err error) ([]T, error) {
	if m.group == nil {
		return []T{own}, err
	}
	if m.note(err) != nil && m.apart {
		return nil, err
	}
	raw, failed := json.Marshal(own)
	err = errors.Join(err, failed)
	if wanted := stopOf(ctx, err); wanted != nil {
		err = wanted
	}
	all, err := m.group.Agree(ctx, err, endWeight(ctx, err), raw)
	if err != nil {
		return nil, likewise(err)
	}
	out := make([]T, len(all))
	for rank, one := range all {
		if err := json.Unmarshal(one, &out[rank]); err != nil {
			return nil, fmt.Errorf("train: rollouts: rank %d: %w", rank, err)
		}
	}
	return out, nil
}
