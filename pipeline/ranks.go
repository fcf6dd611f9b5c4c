package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/state"
	"gputrain/transport"
)

// A pipeline may lie on several ranks. All of them make the same cut and the same schedule, and build every stage, those of other ranks on devices
// without hardware, which take no memory. So each knows how everything lies everywhere, and runs its own stages alone:
//
//	messages      a wire between ranks is a link with an end on each (ranklink.go)
//	norms         what each rank has measured of its stages goes to all
//	losses        those of the rank that has the last stage go to all
//	tied weights  the rank that owns one sends it to those with copies, after each update
//	results       of evaluation and sampling go to all ranks of the pipeline
//	checkpoints   rank 0 gets what it lacks, tensor by tensor
//
// All ranks make the same calls of a State, in the same order.

// Peers are the ranks of a run, as a pipeline uses them; a *cluster.Group. Every wait of theirs ends, but for those of Send and Receive, which end with
// their context.
type Peers interface {
	carrier
	// Rank is which of Size this one is, from 0 on.
	Rank() int
	Size() int
	// Host names the machine of a rank.
	Host(rank int) string
	// Gather gives every rank what all have given for one purpose, in the order of their ranks.
	Gather(ctx context.Context, what string, own []byte) ([][]byte, error)
	// Settle is a Gather to which a rank may come with an error instead: then all get one, each its own or else that of another, which it names.
	Settle(ctx context.Context, err error, own []byte) ([][]byte, error)
	// Fail ends all ranks with an error of this one that comes where they do not meet.
	Fail(err error)
}

// carrier carries messages between ranks; see transport.Ranks.
type carrier interface {
	Send(ctx context.Context, to int, tag transport.Tag, b []byte) error
	Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error
}

// Ranks says on which ranks the stages of a pipeline are.
type Ranks struct {
	Of Peers
	// Stages is the rank of each stage, counted within the pipeline; all ranks from 0 on have one. Where there are more ranks, the first so many make one
	// replica of the model, the next the next one. Then state.Config.Reducer joins Alike, and its Gather is of all ranks.
	Stages []int
	// Patience is the Timeout of a Config at the time, which the ranks learn as they train; nil: it is that of the Config.
	Patience func() time.Duration
}

// Alike are the ranks that have the same stages as this one, replica by replica.
func (r *Ranks) Alike() (all []int) {
	n := r.PerReplica()
	for rank := r.Of.Rank() % n; rank < r.Of.Size(); rank += n {
		all = append(all, rank)
	}
	return all
}

// PerReplica is how many ranks have a replica of the model between them.
func (r *Ranks) PerReplica() int { return slices.Max(r.Stages) + 1 }

// first is the first rank of this one's pipeline.
func (r *Ranks) first() int { return r.Of.Rank() / r.PerReplica() * r.PerReplica() }

// rankOf is the rank of a stage of this pipeline.
func (r *Ranks) rankOf(stage int) int { return r.first() + r.Stages[stage] }

// here tells whether a stage is on this rank. A pipeline of one process has no Ranks.
func (r *Ranks) here(stage int) bool { return r == nil || r.rankOf(stage) == r.Of.Rank() }

// name tells where a stage is; "" in a pipeline of one process.
func (r *Ranks) name(stage int) string {
	if r == nil {
		return ""
	}
	rank := r.rankOf(stage)
	return transport.Name(rank, r.Of.Host(rank))
}

// silent is the error of a stage on another rank that was waited for in vain.
func (r *Ranks) silent(stage int, operation string, late error) error {
	rank := r.rankOf(stage)
	return &transport.Error{Operation: operation, Rank: rank, Host: r.Of.Host(rank), By: r.Of.Rank(), Err: fmt.Errorf("it does not answer: %w", late)}
}

// check says what is wrong with the ranks for so many stages and replicas.
func (r *Ranks) check(stages int, replicas int) error {
	if r == nil {
		return nil
	}
	if len(r.Stages) != stages {
		return fmt.Errorf("pipeline: ranks: found the ranks of %d stages, wanted those of %d", len(r.Stages), stages)
	}
	n := r.PerReplica()
	for rank := range n {
		if !slices.Contains(r.Stages, rank) {
			return fmt.Errorf("pipeline: ranks: rank %d: found no stage, wanted one or more on each of ranks 0 to %d", rank, n-1)
		}
	}
	if err := r.CheckSize(); err != nil {
		return err
	}
	if found := r.Of.Size() / n; found != replicas {
		return fmt.Errorf("pipeline: ranks: found %d ranks of which %d make a pipeline, and a reducer of %d replicas, wanted one of %d", r.Of.Size(), n, replicas, found)
	}
	return nil
}

// CheckSize says what is wrong with the number of ranks.
func (r *Ranks) CheckSize() error {
	if size, n := r.Of.Size(), r.PerReplica(); size%n != 0 {
		return fmt.Errorf("pipeline: ranks: found %d ranks, wanted a multiple of the %d of a pipeline: %s", size, n, multiples(n))
	}
	return nil
}

// multiples names the numbers of ranks that pipelines of n divide.
func multiples(n int) string { return fmt.Sprintf("%d, %d, %d and so on", n, 2*n, 3*n) }

// agree tells whether all ranks wish something. Where one has failed all have.
func (r *Ranks) agree(ctx context.Context, wish bool, err error) (bool, error) {
	if r == nil {
		return wish, err
	}
	own := []byte{0}
	if wish {
		own[0] = 1
	}
	all, err := r.Of.Settle(ctx, err, own)
	for _, one := range all {
		wish = wish && one[0] == 1
	}
	return wish && err == nil, err
}

// blame makes of an error of the transport one of the stage that it comes from; doing is what this rank waited for.
func (p *passes) blame(doing string, err error) error {
	var noticed *transport.Error
	if p.config.Ranks == nil || !errors.As(err, &noticed) || noticed.Rank == p.config.Ranks.Of.Rank() {
		return err
	}
	for i, st := range p.stages {
		if p.config.Ranks.rankOf(i) == noticed.Rank {
			return &StageError{Stage: i, Where: st.where, Adapter: st.device.Adapter().String(), Doing: doing, Err: err}
		}
	}
	return err
}

// within bounds a wait for other ranks, which their own devices may keep at work.
func (p *passes) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := p.config.timeout()
	for _, d := range p.devices {
		limit += d.Patience()
	}
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("%w: nothing has come for %s: %w", gpu.ErrTimeout, limit, context.DeadlineExceeded))
}

// toEnd ends all ranks where this one's run has failed.
func (p *passes) toEnd(err error) error {
	if err != nil && p.config.Ranks != nil {
		p.config.Ranks.Of.Fail(err)
	}
	return err
}

// shared is how the stages of a pipeline were used, of which each rank knows its own. Of a wire between ranks each sees its end: what counts is the most that
// one of them has seen.
func (p *passes) shared(ctx context.Context, own state.StageUse) (all state.StageUse, err error) {
	r := p.config.Ranks
	if r == nil {
		return own, nil
	}
	raw, err := json.Marshal(own)
	if err != nil {
		return all, err
	}
	given, err := apart{p}.Exchange(ctx, raw)
	if err != nil {
		return all, err
	}
	all.Bubble = 1
	for stage, rank := range r.Stages {
		var of state.StageUse
		if err := json.Unmarshal(given[rank], &of); err != nil {
			return all, fmt.Errorf("pipeline: use of the stages: %s: %w", r.name(stage), err)
		}
		all.Busy, all.Transfer = append(all.Busy, of.Busy[stage]), max(all.Transfer, of.Transfer)
		all.Bubble -= of.Busy[stage] / float64(len(r.Stages))
	}
	return all, nil
}

// joint is the reducer of a pipeline on ranks: it gathers from all ranks, and adds up gradients, if there are replicas, by another reducer, which
// joins those ranks that have the same stages.
type joint struct {
	state.Reducer // of replicas; nil: there is one
	passes        *passes
}

// Replicas are those of the whole model.
func (j joint) Replicas() (rank, count int) {
	if j.Reducer == nil {
		return 0, 1
	}
	return j.Reducer.Replicas()
}

// Gather is of all ranks.
func (j joint) Gather(ctx context.Context, own []byte) (all [][]byte, err error) {
	if j.Reducer != nil {
		all, err = j.Reducer.Gather(ctx, own)
	} else {
		all, err = j.passes.config.Ranks.Of.Gather(ctx, "figures of a step", own)
	}
	return all, j.passes.blame("gather", err)
}

// Sum has nothing to add where there is one replica.
func (j joint) Sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	if j.Reducer == nil {
		return nil
	}
	return j.Reducer.Sum(ctx, grads, own)
}

// apart is a pipeline on ranks as its state sees it.
type apart struct{ *passes }

// Here implements state.Apart.
func (a apart) Here(stage int) bool { return a.config.Ranks.here(stage) }

// Stages implements state.Apart.
func (a apart) Stages() [][]int {
	out := make([][]int, a.config.Ranks.PerReplica())
	for stage, rank := range a.config.Ranks.Stages {
		out[rank] = append(out[rank], stage)
	}
	return out
}

// Leads implements state.Apart.
func (a apart) Leads() bool { return a.config.Ranks.Of.Rank() == 0 }

// Fail implements state.Apart.
func (a apart) Fail(err error) { a.config.Ranks.Of.Fail(err) }

// Exchange implements state.Apart: of what all ranks have given it is that of this pipeline's.
func (a apart) Exchange(ctx context.Context, own []byte) ([][]byte, error) {
	r := a.config.Ranks
	all, err := r.Of.Gather(ctx, "figures of the stages", own)
	if err != nil {
		return nil, a.blame("exchange", err)
	}
	return all[r.first():][:r.PerReplica()], nil
}

// Deliver implements state.Apart.
func (a apart) Deliver(ctx context.Context, replica, stage int, b []byte) (err error) {
	ctx, done := a.within(ctx)
	defer done()
	r := a.config.Ranks
	own, from := r.Of.Rank(), replica*r.PerReplica()+r.Stages[stage]
	switch {
	case own == from && from != 0:
		err = r.Of.Send(ctx, 0, tagDelivery, b)
	case own == 0 && from != 0:
		err = r.Of.Receive(ctx, from, tagDelivery, b)
	}
	return a.blame("delivery of a checkpoint", err)
}
