package cluster

import (
	"context"
	"fmt"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/state"
)

// Tags of the messages of a sum.
const (
	tagPieces transport.Tag = iota // of partial sums, to the rank that adds them up
	tagTotals                      // of pieces, to the ranks that need them
	tagTrees                       // leaves of a rank's group, to the ranks that each have a piece of them
	tagSpread                      // and from there to all
)

// Sums says how gradients are added up.
type Sums struct {
	Microbatches int  // of an update, of all replicas
	Wire         Wire // "": F32
	Bucket       int  // bytes of gradients that travel together; 0: DefaultBucket
}

// Reducer adds up the gradients of replicas: a state.Reducer. They travel in buckets. Of each bucket every replica adds up a piece for all: it gets that piece
// of all partial sums, adds these as the tree over microbatches says, and sends the total to all, or to those that update it. While a bucket travels
// the next one is read back from the device, and the one before written to it.
type Reducer struct {
	mesh     *mesh.Mesh
	column   []int // the ranks whose gradients are added up, replica by replica
	replica  int   // of this rank
	config   Sums
	addition addition
	nodes    [][]state.Span // of the partial sums of each replica
	layout   []byte         // that all replicas have; nil before the first sum
	use      Use            // of the last sum
}

// NewReducer makes the reducer of the ranks of a mesh whose devices, this rank's, all treat denormals as one of the host's additions does; devices
// without hardware do not add. All ranks call it. It is nil where the model is there once, which has nothing to add up.
func NewReducer(ctx context.Context, m *mesh.Mesh, c Sums, devices ...*gpu.Device) (*Reducer, error) {
	if c.Wire == "" {
		c.Wire = F32
	}
	if err := c.Wire.validate(); err != nil {
		return nil, err
	}
	replica, replicas := m.Replica()
	if replicas == 1 {
		return nil, nil
	}
	if c.Bucket == 0 {
		c.Bucket = DefaultBucket(replicas)
	}
	if c.Microbatches < 1 || c.Bucket < 4 {
		return nil, fmt.Errorf("cluster: sums: %d microbatches, buckets of %d bytes, want at least 1, 4", c.Microbatches, c.Bucket)
	}
	r := &Reducer{mesh: m, column: m.Column(), replica: replica, config: c}
	for rank := range replicas {
		r.nodes = append(r.nodes, state.Share(c.Microbatches, rank, replicas).Nodes(c.Microbatches))
	}
	var err error
	if r.addition, err = probe(ctx, devices); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", m.Name(m.Rank()), err)
	}
	return r, nil
}

// Uses are how the last sum went on each rank, once all have met after it.
func (r *Reducer) Uses() (all []Use) {
	for _, note := range r.mesh.Notes() {
		all = append(all, useOf(note))
	}
	return all
}

// Sum adds up the gradients of all replicas; see state.Reducer.
func (r *Reducer) Sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	return r.mesh.Together(func() error { return r.sum(ctx, grads, own) })
}

func (r *Reducer) sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	met := r.mesh.Met() // before the passes of this step
	if err := r.check(ctx, grads, own); err != nil {
		return err
	}
	s := r.summing(grads)
	s.own, s.met = own, met
	s.needs = func(owner, rank int) bool { return owner == everyone || owner == rank }
	s.tag, s.wire, s.what = tagTotals, r.config.Wire, "the sums of gradients"
	begun := time.Now()
	err := s.run(ctx, s.readBack, s.sendPieces, s.addUp, s.spreadPieces, s.collect)
	r.use = Use{
		Passes: s.passes, Sum: time.Since(begun), Transfer: s.meter.transfer, Hidden: s.meter.hidden,
		Sent: s.sent + s.spread, Received: s.received + s.collected,
	}
	r.mesh.Note(r.use.bytes())
	return err
}

// check makes sure, once, that gradients lie alike on all replicas, and every time that these are what was agreed on.
func (r *Reducer) check(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	wanted := r.nodes[r.replica]
	if len(own) != len(wanted) {
		return fmt.Errorf("cluster: sum: found %d partial sums, wanted those of %v", len(own), wanted)
	}
	for i, p := range own {
		if p.Span != wanted[i] || len(p.Trees) != len(grads) {
			return fmt.Errorf("cluster: sum: found a partial sum of %v on %d stages, wanted one of %v on %d", p.Span, len(p.Trees), wanted[i], len(grads))
		}
	}
	if r.layout != nil {
		return nil
	}
	var text []byte
	for _, t := range grads {
		if t.DType() != buffers.F32 {
			return fmt.Errorf("cluster: sum: found gradients of %v, wanted f32", t.DType())
		}
		text = fmt.Appendf(text, "%v ", t.Layout().Slabs())
		if n := t.Layout().Groups(); n > 1 && n != len(r.column) {
			return fmt.Errorf("cluster: sum: found gradients in %d groups, wanted one for each of %d replicas", n, len(r.column))
		}
	}
	all, err := r.mesh.Gather(ctx, "layout of the gradients", text)
	if err != nil {
		return err
	}
	for _, rank := range r.column {
		if first := r.column[0]; string(all[rank]) != string(all[first]) {
			return fmt.Errorf("cluster: %s: gradients: found slabs of %selements, wanted those of rank %d, %s: their adapters have other limits, or the model is cut otherwise",
				r.mesh.Name(rank), all[rank], first, all[first])
		}
	}
	r.layout = text
	return nil
}
