package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"gputrain/data"
	"gputrain/state"
)

// part are the batches of an evaluation that this rank's replica computes: n from first on.
func (m *team) part(of *data.Evaluation) (first, n int) {
	all := of.Batches()
	replica, replicas := m.replica()
	first = replica * all / replicas
	return first, (replica+1)*all/replicas - first
}

// evaluate computes the loss of the validation text, each replica that of some batches; its bits are those of one that computes all. Of a run that is alone
// show shows how many batches are done.
func (m *team) evaluate(ctx context.Context, s State, validation *data.Evaluation, show func(done, all int)) (r state.EvalResult, err error) {
	if m.group == nil {
		done, all := 0, validation.Batches()
		for r, err = range s.Evaluations(ctx, validation) {
			if done++; err != nil {
				return state.EvalResult{}, err
			}
			show(done, all)
		}
		return r, nil
	}
	part, err := validation.Part(m.part(validation))
	if err != nil {
		return state.EvalResult{}, err
	}
	losses, err := s.BatchLosses(context.WithoutCancel(ctx), part) // who wants to stop says so where all meet
	if m.note(err) != nil {
		return state.EvalResult{}, err
	}
	if in, _ := m.group.InRow(); in > 0 {
		losses = nil // the replica's first rank gives them
	}
	raw, err := json.Marshal(bitsOfLosses(losses))
	if err != nil {
		return state.EvalResult{}, err
	}
	all, err := m.group.Gather(ctx, "losses of an evaluation", raw)
	if err != nil {
		return state.EvalResult{}, likewise(err)
	}
	var whole []state.BatchLoss
	for _, one := range all {
		var bits []lossBits
		if err := json.Unmarshal(one, &bits); err != nil {
			return state.EvalResult{}, fmt.Errorf("train: evaluation: %w", err)
		}
		for _, b := range bits {
			l := state.BatchLoss{Sum: math.Float32frombits(b[0]), Tokens: int(b[1])}
			for i, sum := range b[2:] {
				l.Pairs[i] = math.Float32frombits(sum)
			}
			whole = append(whole, l)
		}
	}
	return state.MeanLoss(whole)
}

// cost is how the ranks have spent a step that took so long.
func (m *team) cost(took time.Duration) *ClusterCost {
	if m.sums == nil {
		return nil
	}
	c := &ClusterCost{}
	var transfer, hidden time.Duration
	for rank, u := range m.sums.Uses() {
		ms := Number(milliseconds(u.Passes))
		c.PassesMS = append(c.PassesMS, ms)
		if ms > c.PassesMS[c.Slowest] {
			c.Slowest = rank
		}
		transfer, hidden = transfer+u.Transfer, hidden+u.Hidden
		c.Bytes += u.Sent
	}
	c.Transfer = Number(transfer.Seconds() / took.Seconds() / float64(len(c.PassesMS)))
	if transfer > 0 {
		c.Hidden = Number(hidden.Seconds() / transfer.Seconds())
	}
	return c
}

// lossBits is a loss as it travels, also if it is not finite.
type lossBits [2 + len(state.PairSums{})]uint32

func bitsOfLosses(losses []state.BatchLoss) []lossBits {
	out := make([]lossBits, len(losses))
	for i, l := range losses {
		out[i] = lossBits{math.Float32bits(l.Sum), uint32(l.Tokens)}
		for k, sum := range l.Pairs {
			out[i][2+k] = math.Float32bits(sum)
		}
	}
	return out
}
