package cluster

import (
	"context"
	"time"

	"gputrain/buffers"
)

// GatherTrees gives every rank the groups of the trees that the others have. They travel in buckets, in f32: of each its owner sends every rank a piece, which
// that rank sends to all. So none sends a large leaf to all others.
func (r *Reducer) GatherTrees(ctx context.Context, trees []*buffers.Tree) error {
	return r.mesh.Together(func() error { return r.gatherTrees(ctx, trees) })
}

func (r *Reducer) gatherTrees(ctx context.Context, trees []*buffers.Tree) error {
	begun := time.Now()
	s := r.summing(trees)
	s.needs = func(owner, rank int) bool { return owner != everyone && owner != rank }
	s.tag, s.wire, s.what = tagSpread, F32, "the parameters"
	err := s.run(ctx, s.readOwn, s.handOut, s.putTogether, s.spreadPieces, s.collect)
	u := &r.use
	u.Sum, u.Transfer, u.Hidden = u.Sum+time.Since(begun), u.Transfer+s.meter.transfer, u.Hidden+s.meter.hidden
	u.Sent, u.Received = u.Sent+s.sent+s.spread, u.Received+s.received+s.collected
	return err
}

// readOwn reads what this rank owns of each bucket from its devices.
func (s *summing) readOwn(ctx context.Context) error {
	defer close(s.read)
	defer close(s.kept)
	for _, b := range bucketsOf(s.grads, s.config.Bucket, len(s.column)) {
		t := &travelling{bucket: b}
		if len(b.runs(b.whole(), s.owns(s.replica))) > 0 {
			t.raw = make([]byte, 4*b.count)
		}
		if err := s.readParts(ctx, s.grads, b, t.raw, s.owns(s.replica)); err != nil {
			return err
		}
		if err := put(ctx, s.read, t); err != nil {
			return err
		}
		if err := put(ctx, s.kept, t); err != nil {
			return err
		}
	}
	return nil
}

// owns tells of which parts a rank is the owner.
func (s *summing) owns(rank int) func(owner int) bool {
	return func(owner int) bool { return owner == rank }
}

// handOut sends every rank what this one owns of that rank's piece.
func (s *summing) handOut(ctx context.Context) error {
	return each(ctx, s.read, func(t *travelling) error {
		return s.sendEach(ctx, tagTrees, &s.sent, func(to int) []byte {
			return pick(t.raw, 4, t.runs(t.pieces[to], s.owns(s.replica)), run.inBucket)
		})
	})
}

// putTogether takes this rank's piece from those that own it.
func (s *summing) putTogether(ctx context.Context) error {
	defer close(s.given)
	defer close(s.taken)
	return each(ctx, s.kept, func(t *travelling) error {
		p := &piece{bucket: t.bucket, of: t.pieces[s.replica]}
		p.wire = make([]byte, 4*elements(p.of))
		for _, r := range p.runs(p.of, s.owns(s.replica)) {
			copy(p.wire[4*r.at:], t.raw[4*r.from:4*r.end])
		}
		for _, rank := range s.peers(-1) {
			runs := p.runs(p.of, s.owns(rank))
			if len(runs) == 0 {
				continue
			}
			raw := make([]byte, 4*elements(runs))
			if err := s.receive(ctx, rank, tagTrees, raw, "the parameters"); err != nil {
				return err
			}
			s.received += uint64(len(raw))
			for _, r := range runs {
				raw = raw[copy(p.wire[4*r.at:4*(r.at+r.elements())], raw):]
			}
		}
		return s.give(ctx, p)
	})
}
