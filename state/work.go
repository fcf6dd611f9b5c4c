package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/system"
	"gputrain/model"
	"gputrain/run/data"
)

// Work counts what an update does on one device, kernel by kernel. The operations that the passes need add up to FLOPs and what Recompute has them compute
// again. The last entry is the optimizer, with what its Cost tells.
func (s *TrainState) Work() []compile.Work {
	d, batches := s.passes.(*onDevice), s.job.Share().Count
	work := d.micro.Work()
	for i, w := range work {
		n := float64(batches)
		work[i].Dispatches, work[i].Work, work[i].Needed, work[i].Least = w.Dispatches*batches, w.Times(n), n*w.Needed, n*w.Least
	}
	gradients := func(kernels string, dispatches int, bytes uint64) {
		work = append(work, compile.Work{Group: compile.Rest, Kind: "gradients", Kernels: kernels, Dispatches: dispatches, Work: gpu.Work{Bytes: float64(bytes)}})
	}
	if len(d.begin) > 0 {
		gradients("zero", 0, d.grads.Bytes())
	}
	if dispatches, bytes := d.sums.work(); bytes > 0 {
		gradients("sum", dispatches, bytes)
	}
	tx := s.own.Transform
	return append(work, compile.Work{
		Group: "optimizer", Kind: "update", Kernels: tx.Name(), Dispatches: s.updater.Program().Dispatches(), Work: tx.Cost().Work(s.own.Params.Layout().Elements()),
	})
}

// Submits are those of an update, by stage, as the devices cut them at present. Where updates differ they are those of the longest.
func (s *TrainState) Submits() [][]gpu.Planned {
	if s.updater.whole() && !s.job.joined() {
		return s.passes.Submits(s.updater.longest(0)[0])
	}
	out := s.passes.Submits(nil)
	for i, st := range s.stages {
		for _, piece := range s.updater.longest(i) {
			out[i] = append(out[i], st.Params.Device().Plan(piece)...)
		}
	}
	return out
}

// longest are the pieces of the update of a stage that takes longest.
func (u *updater) longest(stage int) (longest []*gpu.Program) {
	s, most := u.stages[stage], time.Duration(-1)
	for _, phase := range s.State.Phases() {
		takes := time.Duration(0)
		for _, piece := range s.pieces[phase] {
			for _, p := range s.Params.Device().Plan(piece) {
				takes += p.Takes
			}
		}
		if takes > most {
			longest, most = s.pieces[phase], takes
		}
	}
	return longest
}

// Rehearse makes forward and backward passes of a step, without its update, times over, and tells how long those of a step take. The state is as
// before: every step makes its gradients anew. The first call also waits for whatever a driver compiles only when a kernel first runs.
func (s *TrainState) Rehearse(ctx context.Context, times int) (time.Duration, error) {
	err := s.settle()
	if err == nil {
		var took time.Duration
		if took, err = s.passes.Rehearse(context.WithoutCancel(ctx), times); err == nil {
			var ahead time.Duration
			if ahead, err = s.rehearseAhead(context.WithoutCancel(ctx), times); err == nil {
				return took + ahead, nil
			}
		}
		s.broken = err
	}
	return 0, fmt.Errorf("state: rehearse: %w", err)
}

// rehearseAhead tells how long the pass before an update takes, if the objective has one: by that of some microbatches.
func (s *TrainState) rehearseAhead(ctx context.Context, times int) (time.Duration, error) {
	count := s.job.Share().Count
	if s.job.Objective.Row().Ahead == nil || count == 0 {
		return 0, nil
	}
	o, _ := s.job.Objective.Ahead()
	some := slices.Repeat([]Feed{FeedOf(o, s.job.Rehearsal())}, min(count, rehearsedAhead))
	watch := system.Stopwatch()
	for range times {
		if _, err := s.passes.Look(ctx, some); err != nil {
			return 0, err
		}
	}
	return watch() * time.Duration(count) / time.Duration(times*len(some)), nil
}

// rehearsedAhead is as many microbatches as stages take at once.
const rehearsedAhead = 8

// Rehearsal is one microbatch to measure with, of tokens spread over the vocabulary.
func (j Job) Rehearsal() data.Batch {
	b := data.Batch{Tokens: make([]int32, j.Batch*j.Sequence), Labels: make([]int32, j.Batch*j.Sequence), Rows: j.Batch, Beside: map[string][]float32{}}
	for name, each := range j.Objective.Beside(j.Definition, j.Sequence, true) {
		b.Beside[name] = make([]float32, j.Batch*each)
	}
	for i := range b.Tokens {
		b.Tokens[i] = int32(uint64(i) * 7919 % uint64(j.Definition.Vocab()))
		b.Labels[i] = b.Tokens[i] % int32(model.Labels(j.Definition))
	}
	return b
}

// FLOPs counts the floating point operations of an update but for the optimizer's: forward and backward pass of all its microbatches, at their
// real shape, padding included, by kind of operation ("matmul"). What is computed a second time to save memory does not count.
func (j Job) FLOPs() (map[string]int64, error) {
	j.Recompute = model.RecomputeNone
	t, err := j.Training(nil)
	if err != nil {
		return nil, fmt.Errorf("state: flops: %w", err)
	}
	flops := t.Graph.FLOPsByKind(t.values()...)
	for kind := range flops {
		flops[kind] *= int64(j.Microbatches)
	}
	return flops, nil
}

// Again is the share of a forward pass that a backward pass computes again, by operations: 0 where Recompute is none.
func (j Job) Again() (float64, error) {
	again, err := j.Training(nil)
	if err != nil {
		return 0, fmt.Errorf("state: flops: %w", err)
	}
	j.Recompute = model.RecomputeNone
	once, err := j.Training(nil)
	if err != nil {
		return 0, fmt.Errorf("state: flops: %w", err)
	}
	more := again.Graph.FLOPs(again.values()...) - once.Graph.FLOPs(once.values()...)
	return float64(more) / float64(once.Graph.FLOPs(once.LossSum)), nil
}

// values are what is wanted of the graph.
func (t trainingGraph) values() []*graph.Value {
	out := []*graph.Value{t.LossSum}
	for _, g := range t.Gradients {
		out = append(out, g.Value)
	}
	return out
}
