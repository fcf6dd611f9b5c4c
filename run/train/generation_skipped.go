package train

import (
	"math"

	"gputrain/run/grpo"
)

// learned tells whether there is anything to learn from a row.
func (r *rollouts) learned(row grpo.Row) bool {
	return !r.skips() || row.Advantage != 0 && !(row.Truncated && r.masks())
}

func (r *rollouts) skips() bool {
	o := r.config.State.Objective
	return o.Numbers["skip_flat"] != 0 && o.Numbers["beta"] == 0
}

func (r *rollouts) masks() bool {
	return r.config.State.Objective.Numbers["mask_truncated_completions"] != 0
}

// arranged are the rows of an update in their order, and how many nothing is computed of.
func (r *rollouts) arranged(rows []grpo.Row) ([]grpo.Row, int) {
	if !r.skips() {
		return rows, 0
	}
	return grpo.Arrange(rows, r.config.State.Batch, r.learned)
}

// computedShare is the share of the tokens of an update that figures are sums over.
func (r *rollouts) computedShare(rows []grpo.Row) float64 {
	all, some := 0, 0
	for _, row := range rows {
		if row.Truncated && r.masks() {
			continue
		}
		if all += len(row.Tokens); r.learned(row) {
			some += len(row.Tokens)
		}
	}
	return float64(some) / float64(max(1, all))
}

// overComputed makes means over all tokens of an update those over the rows with anything to learn from; without any there are none.
func (r *rollouts) overComputed(step int64, figures map[string]Number) {
	share := r.computed[step]
	delete(r.computed, step)
	for name, by := range map[string]float64{"entropy": share, "old_difference": share, "old_difference_rms": math.Sqrt(share)} {
		if figures[name] /= Number(by); share == 0 {
			delete(figures, name)
		}
	}
}
