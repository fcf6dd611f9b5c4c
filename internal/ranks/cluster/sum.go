package cluster

import (
	"context"
	"sync"
	"time"

	"gputrain/buffers"
	"gputrain/internal/caught"
	"gputrain/internal/ranks/transport"
	"gputrain/state"
)

// travelling is a bucket under way.
type travelling struct {
	bucket
	partials [][]float32 // of this rank, of gradients
	raw      []byte      // what this rank has of parameters, each in its place
}

// piece is what this rank gives of a bucket to those that need it.
type piece struct {
	bucket
	of   []run
	wire []byte // as it travels
}

// summing is a sum under way, or a gathering: a line of goroutines, each of which takes the buckets in their order from the one before. Of a bucket that
// all ranks are at none waits for a later one, so it goes on.
type summing struct {
	*Reducer
	grads []*buffers.Tree
	own   []state.Partial
	met   time.Time // when all had come together, before the passes
	meter meter

	read, kept   chan *travelling // to those that send pieces and put them together
	given, taken chan *piece      // to those that spread pieces and collect them
	needs        func(owner, rank int) bool
	tag          transport.Tag // of pieces that are spread
	wire         Wire
	what         string

	passes                            time.Duration
	sent, spread, received, collected uint64 // each by one goroutine
}

// summing begins with what all have in common. Pieces may wait for ranks that have more to send or receive than others: as many as make one bucket.
func (r *Reducer) summing(trees []*buffers.Tree) *summing {
	ranks := len(r.column)
	return &summing{
		Reducer: r, grads: trees, meter: meter{at: time.Now()},
		read: make(chan *travelling, 1), kept: make(chan *travelling, 1), given: make(chan *piece, ranks), taken: make(chan *piece, ranks),
	}
}

// run runs the parts of a sum at the same time; the first error ends all.
func (s *summing) run(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() {
			if err := caught.Do(func() error { return part(ctx) }); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// put hands a bucket on, unless the sum is over.
func put[T any](ctx context.Context, to chan<- T, t T) error {
	select {
	case to <- t:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// each does something with every bucket that comes.
func each[T any](ctx context.Context, from <-chan T, do func(t T) error) error {
	for {
		select {
		case t, more := <-from:
			if !more {
				return nil
			}
			if err := do(t); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readBack reads the buckets of the partial sums from the devices, once these are through with the passes.
func (s *summing) readBack(ctx context.Context) error {
	defer close(s.read)
	defer close(s.kept)
	for _, tree := range s.grads {
		if err := s.meter.device(func() error { return tree.Device().Wait(ctx) }); err != nil {
			return err
		}
	}
	s.passes = time.Since(s.met)
	for _, b := range bucketsOf(s.grads, s.config.Bucket, len(s.column)) {
		t := &travelling{bucket: b}
		for _, p := range s.own {
			raw := make([]byte, 4*b.count)
			if err := s.readParts(ctx, p.Trees, b, raw, func(int) bool { return true }); err != nil {
				return err
			}
			values := make([]float32, b.count)
			F32.decode(values, raw)
			t.partials = append(t.partials, values)
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

// readParts reads the parts of a bucket whose owners are wanted from the devices, each to its place.
func (s *summing) readParts(ctx context.Context, trees []*buffers.Tree, b bucket, to []byte, wanted func(owner int) bool) error {
	for _, p := range b.parts {
		if !wanted(p.owner) {
			continue
		}
		tree := trees[p.stage]
		if err := s.meter.device(func() error { return tree.Device().Read(ctx, to[4*p.at:4*(p.at+p.count)], p.of(tree)) }); err != nil {
			return err
		}
	}
	return nil
}

// peers are the other ranks, in such an order that what each sends first is what another receives first: none is sent to by all at once. Sends go to
// those after this rank, with step 1, and receives come from those before it, with step -1.
func (s *summing) peers(step int) (out []int) {
	ranks := len(s.column)
	for i := 1; i < ranks; i++ {
		out = append(out, (s.replica+step*i+ranks)%ranks)
	}
	return out
}

// sendPieces sends every rank its piece of this rank's partial sums.
func (s *summing) sendPieces(ctx context.Context) error {
	size := s.config.Wire.bytes()
	return each(ctx, s.read, func(t *travelling) error {
		return s.sendEach(ctx, tagPieces, &s.sent, func(to int) []byte {
			n := elements(t.pieces[to])
			raw := make([]byte, len(t.partials)*n*size)
			for i, values := range t.partials {
				for _, r := range t.pieces[to] {
					s.config.Wire.encode(raw[(i*n+r.at)*size:], values[r.from:r.end])
				}
			}
			return raw
		})
	})
}

// addUp adds up this rank's piece.
func (s *summing) addUp(ctx context.Context) error {
	defer close(s.given)
	defer close(s.taken)
	return each(ctx, s.kept, func(t *travelling) error {
		p := &piece{bucket: t.bucket, of: t.pieces[s.replica]}
		if len(p.of) > 0 {
			total, err := s.total(ctx, p.of, t.partials)
			if err != nil {
				return err
			}
			p.wire = make([]byte, len(total)*s.wire.bytes())
			s.wire.encode(p.wire, total)
		}
		return s.give(ctx, p)
	})
}

// give hands a piece to those that spread it and collect the others.
func (s *summing) give(ctx context.Context, p *piece) error {
	if err := put(ctx, s.given, p); err != nil {
		return err
	}
	return put(ctx, s.taken, p)
}

// total is the sum over a piece of all partial sums, of which these are this rank's.
func (s *summing) total(ctx context.Context, of []run, own [][]float32) ([]float32, error) {
	wire, n := s.config.Wire, elements(of)
	var nodes []state.Span
	var first []int // of a rank's nodes
	for _, of := range s.nodes {
		first, nodes = append(first, len(nodes)), append(nodes, of...)
	}
	terms := make([][]float32, len(nodes))
	for i, values := range own {
		term := make([]float32, n)
		for _, r := range of {
			copy(term[r.at:], values[r.from:r.end]) // the rest is on its way to others
		}
		wire.round(term)
		terms[first[s.replica]+i] = term
	}
	for _, rank := range s.peers(-1) {
		if len(s.nodes[rank]) == 0 {
			continue
		}
		raw := make([]byte, len(s.nodes[rank])*n*wire.bytes())
		if err := s.receive(ctx, rank, tagPieces, raw, "the gradients"); err != nil {
			return nil, err
		}
		s.received += uint64(len(raw))
		for i := range s.nodes[rank] {
			term := make([]float32, n)
			wire.decode(term, raw[i*n*wire.bytes():])
			terms[first[rank]+i] = term
		}
	}
	return state.Fold(s.config.Microbatches, nodes, func(i int) []float32 { return terms[i] }, func(left, right []float32) []float32 {
		s.addition.add(left, right)
		return left
	}), nil
}

// spreadPieces sends of this rank's piece what others need.
func (s *summing) spreadPieces(ctx context.Context) error {
	return each(ctx, s.given, func(p *piece) error {
		return s.sendEach(ctx, s.tag, &s.spread, func(to int) []byte {
			return pick(p.wire, s.wire.bytes(), p.runs(p.of, func(owner int) bool { return s.needs(owner, to) }), run.inPiece)
		})
	})
}

// collect takes what this rank needs of all pieces and writes it to the devices.
func (s *summing) collect(ctx context.Context) error {
	own, size := s.replica, s.wire.bytes()
	needed := func(owner int) bool { return s.needs(owner, own) }
	return each(ctx, s.taken, func(p *piece) error {
		if len(p.runs(p.whole(), needed)) == 0 {
			return nil
		}
		whole := make([]byte, 4*p.count)
		place := func(r run, raw []byte) {
			if s.wire == F32 {
				copy(whole[4*r.from:4*r.end], raw)
				return
			}
			values := make([]float32, r.elements())
			s.wire.decode(values, raw)
			F32.encode(whole[4*r.from:], values)
		}
		for _, r := range p.runs(p.of, needed) {
			place(r, p.wire[r.at*size:])
		}
		for _, rank := range s.peers(-1) {
			runs := p.runs(p.pieces[rank], needed)
			if len(runs) == 0 {
				continue
			}
			raw := make([]byte, elements(runs)*size)
			if err := s.receive(ctx, rank, s.tag, raw, s.what); err != nil {
				return err
			}
			s.collected += uint64(len(raw))
			for _, r := range runs {
				place(r, raw)
				raw = raw[r.elements()*size:]
			}
		}
		return s.writeParts(p.bucket, whole, needed)
	})
}

// writeParts writes the parts of a bucket whose owners are wanted to the devices.
func (s *summing) writeParts(b bucket, whole []byte, wanted func(owner int) bool) error {
	for _, p := range b.parts {
		if !wanted(p.owner) {
			continue
		}
		tree := s.grads[p.stage]
		if err := s.meter.device(func() error { return tree.Device().Write(p.of(tree), whole[4*p.at:4*(p.at+p.count)]) }); err != nil {
			return err
		}
	}
	return nil
}

// sendEach sends the other ranks what there is for each, if anything, and counts its bytes.
func (s *summing) sendEach(ctx context.Context, tag transport.Tag, sent *uint64, message func(to int) []byte) error {
	for _, to := range s.peers(1) {
		raw := message(to)
		if len(raw) == 0 {
			continue
		}
		if err := s.send(ctx, to, tag, raw); err != nil {
			return err
		}
		*sent += uint64(len(raw))
	}
	return nil
}

// send gives a rank a message, or says that it did not take it.
func (s *summing) send(ctx context.Context, to int, tag transport.Tag, raw []byte) error {
	return ended(ctx, s.meter.wire(func() error { return s.mesh.Give(ctx, s.column[to], tag, raw) }))
}

// receive takes what a rank has to give.
func (s *summing) receive(ctx context.Context, from int, tag transport.Tag, raw []byte, what string) error {
	return ended(ctx, s.meter.wire(func() error { return s.mesh.Take(ctx, s.column[from], tag, raw, what) }))
}

// ended is the error of a call, or what has ended the sum before it.
func ended(sum context.Context, err error) error {
	if err != nil && sum.Err() != nil {
		return context.Cause(sum)
	}
	return err
}
