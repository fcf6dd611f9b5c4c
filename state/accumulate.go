package state

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// How the gradients of an update's microbatches are added up: Config.Accumulation.
const (
	// AccumulateTree adds along one tree over the microbatches (Span), so that any number of replicas gives the same bits. It takes a tree of
	// gradients for each partial sum that has to wait.
	AccumulateTree = "tree"
	// AccumulateSequence adds each gradient to those before, in place, and the shares of a parameter that is read in several places one by one.
	// There is one replica.
	AccumulateSequence = "sequence"
)

// accumulations are the values of Config.Accumulation.
var accumulations = []string{AccumulateTree, AccumulateSequence}

// Share is what this replica computes of all microbatches.
func (j Job) Share() Span {
	rank, count := j.replicas()
	return Share(max(j.Microbatches, 1), rank, count)
}

// InPlace tells whether passes add to the gradients instead of overwriting them.
func (j Job) InPlace() bool { return j.Accumulation == AccumulateSequence && j.Share().Count > 1 }

// Partial is the sum of the gradients of some microbatches, by stage.
type Partial struct {
	Span
	Trees []*buffers.Tree
}

// Sums adds up the gradients of a replica's share of microbatches along the tree, on one device. Every microbatch overwrites the gradients. What
// they are then added to, or copied to where nothing waits for them yet, are the partial sums held. In the end the newest of these is
// where the gradients are. In sequence, or of one microbatch, there is nothing to do.
type Sums struct {
	grads    *buffers.Tree
	held     []*buffers.Tree // the oldest first
	nodes    []Span          // that remain
	steps    sumSteps
	programs []*gpu.Program
}

// summed are the steps of the share, and the sums that remain.
func (j Job) summed() (steps sumSteps, remain []Span) {
	share := j.Share()
	if j.InPlace() {
		return sumSteps{inPlace: share.Count}, []Span{share}
	}
	remain = share.Nodes(max(j.Microbatches, 1))
	return sumSteps{nodes: remain}, remain
}

// PartialSums is how many trees of partial sums a device holds at most beside the gradients.
func (j Job) PartialSums() int {
	steps, _ := j.summed()
	return steps.trees()
}

// NewSums makes the room for partial sums beside the gradients of a device.
func (j Job) NewSums(grads *buffers.Tree) (*Sums, error) {
	s := &Sums{grads: grads}
	s.steps, s.nodes = j.summed()
	for i := range s.steps.trees() {
		tree, err := buffers.NewTree(grads.Device(), fmt.Sprintf("sum%d", i), grads.Layout(), grads.DType())
		if err != nil {
			s.Release()
			return nil, err
		}
		s.held = append(s.held, tree)
	}
	return s, nil
}

// Programs are what follows the backward pass of each microbatch of the share, for the leaves that keep says, nil for all; nil where nothing
// does.
func (s *Sums) Programs(ctx context.Context, label string, keep func(buffers.Leaf) bool) (behind func(microbatch int) *gpu.Program, err error) {
	made := map[sumStep]*gpu.Program{}
	for step := range s.steps.kinds() {
		if s.changes(step, keep) {
			if made[step], err = s.program(ctx, label, step, keep); err != nil {
				return nil, err
			}
			s.programs = append(s.programs, made[step])
		}
	}
	return func(microbatch int) *gpu.Program { return made[s.steps.of(microbatch)] }, nil
}

// changes tells whether a step has anything to do for some leaves.
func (s *Sums) changes(step sumStep, keep func(buffers.Leaf) bool) bool {
	leaves := s.grads.Layout().Leaves()
	return len(s.held) > 0 && (step.merged > 0 || !step.last) && (keep == nil && len(leaves) > 0 || keep != nil && slices.ContainsFunc(leaves, keep))
}

// work counts the dispatches of an update on one device, and the bytes that they and copies move.
func (s *Sums) work() (dispatches int, bytes uint64) {
	for step, like := range s.steps.kinds() {
		if !s.changes(step, nil) {
			continue
		}
		more, trees := buffers.SumWork(step.merged + 1)
		dispatches, bytes = dispatches+like.count*more*len(s.grads.Layout().Slabs()), bytes+uint64(like.count)*uint64(trees)*s.grads.Bytes()
	}
	return dispatches, bytes
}

func (s *Sums) program(ctx context.Context, label string, step sumStep, keep func(buffers.Leaf) bool) (*gpu.Program, error) {
	rec := s.grads.Device().Record("gputrain." + label + ".sum")
	from := step.held - step.merged
	to := s.grads
	if !step.last {
		to = s.held[from]
	}
	if err := buffers.Sum(rec, keep, to, append(slices.Clone(s.held[from:step.held]), s.grads)...); err != nil {
		return nil, err
	}
	return rec.Program(ctx)
}

// Partials are the partial sums once all microbatches of the share are computed, the one that lies in the gradients last; others are the sums of the other stages.
func (s *Sums) Partials(others ...*Sums) (out []Partial) {
	for i, node := range s.nodes {
		p := Partial{Span: node}
		for _, s := range append([]*Sums{s}, others...) {
			tree := s.grads
			if i < len(s.nodes)-1 {
				tree = s.held[i]
			}
			p.Trees = append(p.Trees, tree)
		}
		out = append(out, p)
	}
	return out
}

// Bytes is what the partial sums take of the device, and UniformBytes their programs.
func (s *Sums) Bytes() uint64 { return uint64(len(s.held)) * s.grads.Bytes() }

// UniformBytes is what the programs take of the device.
func (s *Sums) UniformBytes() (bytes uint64) {
	for _, p := range s.programs {
		bytes += p.UniformBytes()
	}
	return bytes
}

// Release gives back all but the gradients.
func (s *Sums) Release() {
	if s == nil {
		return
	}
	for _, p := range s.programs {
		p.Release()
	}
	for _, t := range s.held {
		t.Release()
	}
}
