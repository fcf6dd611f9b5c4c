package cluster

import (
	"context"
	"fmt"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/state"
	"gputrain/transport"
)

// Tags of the messages of a sum.
const (
	tagPieces   transport.Tag = iota // of partial sums, to the rank that adds them up
	tagTotals                        // of pieces, to the ranks that need them
	tagTrees                         // leaves of a rank's group, to the ranks that each have a piece of them
	tagSpread                        // and from there to all
	tagDelivery                      // to rank 0
)

// Sums says how gradients are added up.
type Sums struct {
	// Members are the ranks whose gradients are added up with this one's, replica by replica: where a model lies on several ranks, those that have its
	// stages. nil: all ranks, each a replica.
	Members      []int
	Microbatches int  // of an update, of all replicas
	Wire         Wire // "": F32
	Bucket       int  // bytes of gradients that travel together; 0: DefaultBucket
}

// Reducer adds up the gradients of replicas: a state.Reducer. They travel in buckets. Of each bucket every replica adds up a piece for all: it gets that piece
// of all partial sums, adds these as the tree over microbatches says, and sends the total to all, or to those that update it. While a bucket travels
// the next one is read back from the device, and the one before written to it.
type Reducer struct {
	group    replicas
	config   Sums
	addition addition
	nodes    [][]state.Span // of the partial sums of each replica
	layout   []byte         // that all replicas have; nil before the first sum
	use      Use            // of the last sum
	uses     []Use          // of all ranks of the group, once they have met
	met      time.Time      // when all had last come together, before the passes of a step
}

// NewReducer makes the reducer of ranks of a group whose devices, this rank's, all treat denormals as one of the host's additions does; devices without
// hardware do not add. All ranks of the group call it. It is nil where the model is there once, which has nothing to add up.
func NewReducer(ctx context.Context, group *Group, c Sums, devices ...*gpu.Device) (*Reducer, error) {
	if c.Wire == "" {
		c.Wire = F32
	}
	if err := c.Wire.validate(); err != nil {
		return nil, err
	}
	of, err := replicasOf(group, c.Members)
	if err != nil || of.Size() == 1 {
		return nil, err
	}
	if c.Bucket == 0 {
		c.Bucket = DefaultBucket(of.Size())
	}
	if c.Microbatches < 1 || c.Bucket < 4 {
		return nil, fmt.Errorf("cluster: sums: %d microbatches, buckets of %d bytes, want at least 1, 4", c.Microbatches, c.Bucket)
	}
	r := &Reducer{group: of, config: c, uses: make([]Use, group.Size())}
	for rank := range of.Size() {
		r.nodes = append(r.nodes, state.Share(c.Microbatches, rank, of.Size()).Nodes(c.Microbatches))
	}
	if r.addition, err = probe(ctx, devices); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", group.name(group.Rank()), err)
	}
	return r, nil
}

// Replicas says which replica this is.
func (r *Reducer) Replicas() (rank, count int) { return r.group.Rank(), r.group.Size() }

// Gather gives every rank what all of the group have given; besides, each tells how its last sum went.
func (r *Reducer) Gather(ctx context.Context, own []byte) ([][]byte, error) {
	defer func() { r.met = time.Now() }()
	all, err := r.group.Gather(ctx, "figures of a step", append(r.use.bytes(), own...))
	if err != nil {
		return nil, err
	}
	for rank := range all {
		r.uses[rank], all[rank] = useOf(all[rank])
	}
	return all, nil
}

// Uses are how the last sum went on each rank of the group, once a Gather has followed it.
func (r *Reducer) Uses() []Use { return r.uses }

// Sum adds up the gradients of all replicas; see state.Reducer.
func (r *Reducer) Sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	if r.group.broken != nil {
		return r.group.broken
	}
	err := r.sum(ctx, grads, own)
	if err != nil {
		r.group.broken = err
	}
	return err
}

func (r *Reducer) sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	if err := r.check(ctx, grads, own); err != nil {
		return err
	}
	s := r.summing(grads)
	s.own = own
	s.needs = func(owner, rank int) bool { return owner == everyone || owner == rank }
	s.tag, s.wire, s.what = tagTotals, r.config.Wire, "the sums of gradients"
	begun := time.Now()
	err := s.run(ctx, s.readBack, s.sendPieces, s.addUp, s.spreadPieces, s.collect)
	r.use = Use{
		Passes: s.passes, Sum: time.Since(begun), Transfer: s.meter.transfer, Hidden: s.meter.hidden,
		Sent: s.sent + s.spread, Received: s.received + s.collected,
	}
	return err
}

// check makes sure, once, that gradients lie alike on all replicas, and every time that these are what was agreed on.
func (r *Reducer) check(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	wanted := r.nodes[r.group.Rank()]
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
		if n := t.Layout().Groups(); n > 1 && n != r.group.Size() {
			return fmt.Errorf("cluster: sum: found gradients in %d groups, wanted one for each of %d replicas", n, r.group.Size())
		}
	}
	all, err := r.group.Gather(ctx, "layout of the gradients", text)
	if err != nil {
		return err
	}
	for replica, rank := range r.group.ranks {
		if first := r.group.ranks[0]; string(all[rank]) != string(all[first]) {
			return fmt.Errorf("cluster: %s: gradients: found slabs of %selements, wanted those of rank %d, %s: their adapters have other limits, or the model is cut otherwise",
				r.group.name(replica), all[rank], first, all[first])
		}
	}
	r.layout = text
	return nil
}
