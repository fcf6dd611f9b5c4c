package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"gputrain/internal/ranks/mesh"
	"gputrain/run/data"
	"gputrain/state"
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
	all, err := mesh.Tell(ctx, m.group, "forecast", [2]time.Duration{step, between})
	if err != nil {
		return 0, err
	}
	for _, of := range all {
		step, between = max(step, of[0]), max(between, of[1])
	}
	m.works = workPatience * (step + between)
	m.group.Expect(m.works)
	return step, nil
}

// patient makes the ranks wait for others that draw completions, or ask for rewards, as long as these answer, until after is called: how long texts become is
// known once they are there. A pass on stages may have to be compiled.
func (m *team) patient() (after func()) {
	if m.group == nil {
		return func() {}
	}
	bounded := m.group.Unbounded()
	m.group.Expect(max(m.works, StartPatience))
	return func() {
		bounded()
		m.group.Expect(m.works)
	}
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
	all, err := mesh.Tell(ctx, m.group, "losses of an evaluation", bitsOfLosses(losses))
	if err != nil {
		return state.EvalResult{}, likewise(err)
	}
	var whole []state.BatchLoss
	for _, b := range slices.Concat(all...) {
		l := state.BatchLoss{Sum: math.Float32frombits(b[0]), Tokens: int(b[1]), Maxima: int(b[2])}
		for _, sum := range b[3:] {
			l.Sums = append(l.Sums, math.Float32frombits(sum))
		}
		whole = append(whole, l)
	}
	return state.MeanLoss(whole)
}

// cost is how the ranks have spent a step that took so long.
func (m *team) cost(took time.Duration) *clusterCost {
	if m.sums == nil {
		return nil
	}
	c := &clusterCost{}
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

// bitsOfLosses are losses as they travel, also if they are not finite.
func bitsOfLosses(losses []state.BatchLoss) [][]uint32 {
	out := make([][]uint32, len(losses))
	for i, l := range losses {
		out[i] = []uint32{math.Float32bits(l.Sum), uint32(l.Tokens), uint32(l.Maxima)}
		for _, sum := range l.Sums {
			out[i] = append(out[i], math.Float32bits(sum))
		}
	}
	return out
}
