package pipeline

import (
	"context"
	"errors"
	"fmt"

	"gputrain/gpu"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/state"
)

// A pipeline may lie on several ranks, a row of state.Config.Mesh. All of them make the same cut and the same schedule, and build every stage, those of
// other ranks on devices without hardware, which take no memory. So each knows how everything lies everywhere, and runs its own stages alone:
//
//	messages      a wire between ranks is a link with an end on each (ranklink.go)
//	norms         what each rank has measured of its stages goes to all
//	losses        those of the rank that has the last stage go to all
//	tied weights  the rank that owns one sends it to those with copies, after each update
//	results       of evaluation and sampling go to all ranks of the pipeline
//	checkpoints   rank 0 gets what it lacks, tensor by tensor
//
// All ranks make the same calls of a State, in the same order.

// agree tells whether all ranks wish something, where the pipeline is on several. Where one has failed all have.
func (j job) agree(ctx context.Context, wish bool, err error) (bool, error) {
	m := j.State.Mesh
	if !m.Spread() {
		return wish, err
	}
	own := []byte{0}
	if wish {
		own[0] = 1
	}
	all, err := m.Settle(ctx, err, own)
	for _, one := range all {
		wish = wish && one[0] == 1
	}
	return wish && err == nil, err
}

// silent is the error of a stage on another rank that was waited for in vain.
func silent(m *mesh.Mesh, stage int, operation string, late error) error {
	rank := m.Home(stage)
	return &transport.Error{Operation: operation, Rank: rank, Host: m.Host(rank), By: m.Rank(), Err: fmt.Errorf("it does not answer: %w", late)}
}

// blame makes of an error of the transport one of the stage that it comes from; doing is what this rank waited for.
func (p *passes) blame(doing string, err error) error {
	var noticed *transport.Error
	if !p.mesh.Spread() || !errors.As(err, &noticed) || noticed.Rank == p.mesh.Rank() {
		return err
	}
	for i, st := range p.stages {
		if p.mesh.Home(i) == noticed.Rank {
			return &StageError{Stage: i, Where: st.where, Adapter: st.device.Adapter().String(), Doing: doing, Err: err}
		}
	}
	return err
}

// within bounds a wait for other ranks, which their own devices may keep at work.
func (p *passes) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := p.job.timeout()
	for _, d := range p.devices {
		limit += d.Patience()
	}
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("%w: nothing has come for %s: %w", gpu.ErrTimeout, limit, context.DeadlineExceeded))
}

// Among makes a call in which other ranks take part; see state.OnStages.
func (p *passes) Among(ctx context.Context, doing string, call func(context.Context) error) error {
	if !p.mesh.Spread() {
		return call(ctx)
	}
	ctx, done := p.within(ctx)
	defer done()
	return p.blame(doing, call(ctx))
}

// shared is how the stages of a pipeline were used, of which each rank knows its own. Of a wire between ranks each sees its end: what counts is the most that
// one of them has seen.
func (p *passes) shared(ctx context.Context, own state.StageUse) (all state.StageUse, err error) {
	if !p.mesh.Spread() {
		return own, nil
	}
	told, err := mesh.Tell(ctx, p.mesh, "figures of the stages", own)
	if err != nil {
		return all, p.blame("exchange", err)
	}
	all.Bubble = 1
	for stage := range p.stages {
		of := told[p.mesh.Home(stage)]
		all.Busy, all.Transfer = append(all.Busy, of.Busy[stage]), max(all.Transfer, of.Transfer)
		all.Bubble -= of.Busy[stage] / float64(len(p.stages))
	}
	return all, nil
}
