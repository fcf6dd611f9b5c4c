package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"gputrain/gpu"
	"gputrain/state"
)

// Buckets travel in the order in which they become final, which is much that of the backward pass. Copies of them are submitted with the passes that
// make them final, into staging memory where they wait to be taken, so none waits for passes that come later. What finds no room there is copied
// behind all passes.

// reading is how the partial sums of this rank come from its devices.
type reading struct {
	own     []state.Partial // that it was made for
	buckets []bucket        // in the order in which all ranks take them
	rings   map[*gpu.Device]*ring
}

// ring is the staging memory of a device.
type ring struct {
	device  *gpu.Device
	reads   []read // in the order of their buckets
	staging *gpu.Readback
	room    int           // for so many copies
	queued  chan struct{} // one for each copy that is submitted and not taken

	turn sync.Mutex // of refill
	over bool       // the passes are

	mu   sync.Mutex // of what follows
	next int        // of reads
	free int        // of room
}

// read is a copy of a bucket of a partial sum.
type read struct {
	from    gpu.Range
	program *gpu.Program
	moment  int // from which on that is final
}

// arrange puts the parts of the gradients in an order that all replicas have, that in which they become final on the first, and makes what reads them.
// That is made anew where the partial sums lie elsewhere than before.
func (s *summing) arrange(ctx context.Context) error {
	r := s.Reducer
	if r.reading == nil || !slices.EqualFunc(r.reading.own, s.own, func(a, b state.Partial) bool { return slices.Equal(a.Trees, b.Trees) }) {
		most := max(1, s.config.Bucket/4)
		parts := partsOf(s.grads, most, s.group.Size())
		if r.order == nil {
			var err error
			if r.order, err = s.agree(ctx, parts); err != nil {
				return err
			}
		}
		ordered := make([]part, len(parts))
		for i, at := range r.order {
			ordered[i] = parts[at]
		}
		r.Release()
		r.reading = &reading{own: s.own, buckets: filled(ordered, most, s.group.Size()), rings: map[*gpu.Device]*ring{}}
		for _, b := range r.reading.buckets {
			r.reading.add(b, s.moment(b.parts...))
		}
		for _, g := range r.reading.rings {
			if err := g.make(ctx); err != nil {
				return err
			}
		}
	}
	for _, g := range r.reading.rings {
		g.next, g.free, g.over = 0, g.room, false
	}
	return nil
}

// agree is the order of the first replica.
func (s *summing) agree(ctx context.Context, parts []part) (order []int, err error) {
	var own []byte
	for i, p := range parts {
		own, order = binary.AppendUvarint(own, uint64(s.moment(p))), append(order, i)
	}
	all, err := s.group.Gather(ctx, "order of the gradients", own)
	if err != nil {
		return nil, err
	}
	raw, moments := all[s.group.ranks[0]], make([]uint64, len(parts))
	for i := range moments {
		var n int
		if moments[i], n = binary.Uvarint(raw); n <= 0 {
			return nil, fmt.Errorf("cluster: %s: order of the gradients: found that of %d parts, wanted that of %d", s.group.name(0), i, len(parts))
		}
		raw = raw[n:]
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(moments[i], moments[j]) })
	return order, nil
}

// moment is that from which on all leaves of some parts are final.
func (s *summing) moment(parts ...part) (last int) {
	for _, p := range parts {
		for _, leaf := range s.grads[p.stage].Layout().Leaves() {
			for _, l := range leaf.Parts {
				if l.Slab == p.slab && l.Offset < p.offset+p.count && p.offset < l.Offset+l.Count {
					last = max(last, s.making.Final(p.stage, leaf))
				}
			}
		}
	}
	return last
}

// add lists the copies of a bucket of the partial sums.
func (r *reading) add(b bucket, moment int) {
	for _, sum := range r.own {
		for _, p := range b.parts {
			tree := sum.Trees[p.stage]
			g := r.rings[tree.Device()]
			if g == nil {
				g = &ring{device: tree.Device()}
				r.rings[tree.Device()] = g
			}
			g.reads = append(g.reads, read{from: p.of(tree), moment: moment})
		}
	}
}

// takeParts takes those of a bucket of a partial sum, each to its place.
func (s *summing) takeParts(ctx context.Context, sum state.Partial, b bucket, to []byte) error {
	for _, p := range b.parts {
		g := s.reading.rings[sum.Trees[p.stage].Device()]
		if err := s.meter.device(func() error { return g.take(ctx, to[4*p.at:4*(p.at+p.count)]) }); err != nil {
			return err
		}
	}
	return nil
}

// make makes the staging memory and the copies to it.
func (g *ring) make(ctx context.Context) (err error) {
	most := uint64(0)
	for _, r := range g.reads {
		most = max(most, r.from.Bytes)
	}
	g.room = min(len(g.reads), max(1, int(state.ReadAhead/most)))
	g.queued = make(chan struct{}, g.room)
	if g.staging, err = g.device.NewReadback("gputrain.cluster.gradients", most, g.room); err != nil {
		return err
	}
	for i, r := range g.reads {
		rec := g.device.Record("gputrain.cluster.read")
		rec.ReadBack(g.staging, r.from)
		if g.reads[i].program, err = rec.Program(ctx); err != nil {
			return err
		}
	}
	return nil
}

// behind are the next copies of what is final, as many as there is room for; see state.Behind.
func (g *ring) behind(moment int) (programs []*gpu.Program, submitted func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.free > 0 && g.next < len(g.reads) && g.reads[g.next].moment <= moment {
		programs = append(programs, g.reads[g.next].program)
		g.next, g.free = g.next+1, g.free-1
	}
	return programs, func() {
		for range programs {
			g.queued <- struct{}{}
		}
	}
}

// refill submits copies, once the passes are over.
func (g *ring) refill(ctx context.Context) error {
	g.turn.Lock()
	defer g.turn.Unlock()
	if !g.over {
		return nil
	}
	programs, submitted := g.behind(math.MaxInt)
	if err := g.device.Submit(ctx, programs...); err != nil {
		return err
	}
	submitted()
	return nil
}

// end is called when the passes are over.
func (g *ring) end(ctx context.Context) error {
	g.turn.Lock()
	g.over = true
	g.turn.Unlock()
	return g.refill(ctx)
}

// take waits for the next copy.
func (g *ring) take(ctx context.Context, to []byte) error {
	select {
	case <-g.queued:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := g.staging.NextInto(ctx, to); err != nil {
		return err
	}
	g.mu.Lock()
	g.free++
	g.mu.Unlock()
	return g.refill(ctx)
}

// release gives back what it takes of the devices.
func (r *reading) release() {
	for _, g := range r.rings {
		for _, of := range g.reads {
			of.program.Release()
		}
		if g.staging != nil {
			g.staging.Release()
		}
	}
}

// compute makes the partial sums, and waits until the devices are through with them.
func (s *summing) compute(ctx context.Context) error {
	err := s.meter.device(func() error {
		err := s.making.Make(ctx, func(dev *gpu.Device, moment int) ([]*gpu.Program, func()) {
			if g := s.reading.rings[dev]; g != nil {
				return g.behind(moment)
			}
			return nil, func() {}
		})
		for dev := range s.reading.rings {
			if err == nil {
				err = dev.Wait(ctx)
			}
		}
		return err
	})
	s.passes = time.Since(s.met)
	for _, g := range s.reading.rings {
		if err == nil {
			err = g.end(ctx)
		}
	}
	return err
}
