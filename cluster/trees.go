package cluster

import (
	"context"
	"time"

	"gputrain/buffers"
)

// GatherTrees gives every rank the groups of the trees that the others have: buckets go from their owner to all, while the next are read from its
// device and those before are written to the others'. They always travel in f32.
func (r *Reducer) GatherTrees(ctx context.Context, trees []*buffers.Tree) error {
	if r.group.broken != nil {
		return r.group.broken
	}
	begun := time.Now()
	s := &summing{Reducer: r, grads: trees, read: make(chan *travelling, 1), meter: meter{at: begun}}
	err := s.run(ctx, s.readOwn, s.sendOwn, s.takeOthers)
	if err != nil {
		r.group.broken = err
	}
	u := &r.uses[r.group.Rank()]
	u.Sum, u.Transfer, u.Hidden = u.Sum+time.Since(begun), u.Transfer+s.meter.transfer, u.Hidden+s.meter.hidden
	u.Sent, u.Received = u.Sent+s.sent, u.Received+s.received
	return err
}

// readOwn reads this rank's buckets from its devices.
func (s *summing) readOwn(ctx context.Context) error {
	defer close(s.read)
	for _, b := range bucketsOf(s.grads, s.config.Bucket) {
		if b.owner != s.group.Rank() {
			continue
		}
		t := &travelling{bucket: b, wire: make([]byte, 4*b.count)}
		tree := s.grads[b.stage]
		if err := s.meter.device(func() error { return tree.Device().Read(ctx, t.wire, b.of(tree)) }); err != nil {
			return err
		}
		if err := put(ctx, s.read, t); err != nil {
			return err
		}
	}
	return nil
}

// sendOwn sends them to all.
func (s *summing) sendOwn(ctx context.Context) error {
	return each(ctx, s.read, func(t *travelling) error {
		for _, to := range s.others() {
			if err := s.send(ctx, to, tagTrees, t.wire); err != nil {
				return err
			}
			s.sent += uint64(len(t.wire))
		}
		return nil
	})
}

// takeOthers takes what the others send and writes it to the devices.
func (s *summing) takeOthers(ctx context.Context) error {
	for _, b := range bucketsOf(s.grads, s.config.Bucket) {
		if b.owner == s.group.Rank() || b.owner == everyone {
			continue
		}
		raw := make([]byte, 4*b.count)
		if err := s.receive(ctx, b.owner, tagTrees, raw, "the parameters"); err != nil {
			return err
		}
		s.received += uint64(len(raw))
		tree := s.grads[b.stage]
		if err := s.meter.device(func() error { return tree.Device().Write(b.of(tree), raw) }); err != nil {
			return err
		}
	}
	return nil
}

// Deliver gives rank 0 what another has in b.
func (r *Reducer) Deliver(ctx context.Context, from int, b []byte) error {
	own := r.group.Rank()
	if from == 0 || own != 0 && own != from {
		return nil
	}
	if r.group.broken != nil {
		return r.group.broken
	}
	s := &summing{Reducer: r}
	s.meter.at = time.Now()
	ctx = context.WithoutCancel(ctx)
	var err error
	if own == 0 {
		err = s.receive(ctx, from, tagDelivery, b, "the state of the optimizer")
	} else {
		err = s.send(ctx, 0, tagDelivery, b)
	}
	if err != nil {
		r.group.broken = err
	}
	return err
}
