package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/caught"
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
// the next one is read back from the device, and the one before written to it. They begin while the passes still run (early.go).
type Reducer struct {
	group    replicas
	config   Sums
	addition addition
	nodes    [][]state.Span // of the partial sums of each replica
	layout   []byte         // that all replicas have; nil before the first sum
	order    []int          // in which all replicas take parts of it
	reading  *reading
	use      Use       // of the last sum
	uses     []Use     // of all ranks of the group, once they have met
	met      time.Time // when all had last come together, before the passes of a step
}

// NewReducer makes the reducer of ranks of a group whose devices, this rank's, all treat denormals as one of the host's additions does; devices without
// hardware do not add. All ranks of the group call it. It is nil where the model is there once, which has nothing to add up.
func NewReducer(ctx context.Context, group *Group, c Sums, devices ...*gpu.Device) (*Reducer, error) {
	if c.Wire == "" {
		c.Wire = F32
	}
	if c.Bucket == 0 {
		c.Bucket = DefaultBucket
	}
	if err := c.Wire.validate(); err != nil {
		return nil, err
	}
	if c.Microbatches < 1 || c.Bucket < 4 {
		return nil, fmt.Errorf("cluster: sums: %d microbatches, buckets of %d bytes, want at least 1, 4", c.Microbatches, c.Bucket)
	}
	of, err := replicasOf(group, c.Members)
	if err != nil || of.Size() == 1 {
		return nil, err
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

// Release gives back what the reducer keeps of the devices from one sum to the next.
func (r *Reducer) Release() {
	if r.reading != nil {
		r.reading.release()
	}
	r.reading = nil
}

// Bucket is how many bytes of gradients travel together.
func (r *Reducer) Bucket() int { return r.config.Bucket }

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
func (r *Reducer) Sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial, making state.Making) error {
	if r.group.broken != nil {
		return r.group.broken
	}
	err := r.sum(ctx, grads, own, making)
	if err != nil {
		r.group.broken = err
	}
	return err
}

func (r *Reducer) sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial, making state.Making) error {
	if err := r.check(ctx, grads, own); err != nil {
		return err
	}
	s := r.summing(grads)
	s.own, s.making = own, making
	s.needs = func(owner, rank int) bool { return owner == everyone || owner == rank }
	s.tag, s.wire, s.what = tagTotals, r.config.Wire, "the sums of gradients"
	if err := s.arrange(ctx); err != nil {
		return err
	}
	begun := time.Now()
	err := s.run(ctx, s.compute, s.readBack, s.sendPieces, s.addUp, s.spreadPieces, s.collect)
	r.use = Use{
		Passes: s.passes, Sum: time.Since(begun), Transfer: s.meter.transfer, Hidden: s.meter.hidden,
		Sent: s.sent + s.spread, Received: s.received + s.collected,
	}
	return err
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
	meter meter

	making state.Making

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
	ranks := r.group.Size()
	return &summing{
		Reducer: r, grads: trees, meter: meter{at: time.Now()},
		read: make(chan *travelling, 1), kept: make(chan *travelling, 1), given: make(chan *piece, ranks), taken: make(chan *piece, ranks),
	}
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

// readBack reads the buckets of the partial sums from the devices.
func (s *summing) readBack(ctx context.Context) error {
	defer close(s.read)
	defer close(s.kept)
	for _, b := range s.reading.buckets {
		t := &travelling{bucket: b}
		for _, p := range s.own {
			raw := make([]byte, 4*b.count)
			if err := s.takeParts(ctx, p, b, raw); err != nil {
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
	ranks := s.group.Size()
	for i := 1; i < ranks; i++ {
		out = append(out, (s.group.Rank()+step*i+ranks)%ranks)
	}
	return out
}

// sendPieces sends every rank its piece of this rank's partial sums.
func (s *summing) sendPieces(ctx context.Context) error {
	size := s.config.Wire.bytes()
	return each(ctx, s.read, func(t *travelling) error {
		for _, to := range s.peers(1) {
			n := elements(t.pieces[to])
			if n == 0 || len(t.partials) == 0 {
				continue
			}
			raw := make([]byte, len(t.partials)*n*size)
			for i, values := range t.partials {
				for _, r := range t.pieces[to] {
					s.config.Wire.encode(raw[(i*n+r.at)*size:], values[r.from:r.end])
				}
			}
			if err := s.send(ctx, to, tagPieces, raw); err != nil {
				return err
			}
			s.sent += uint64(len(raw))
		}
		return nil
	})
}

// addUp adds up this rank's piece.
func (s *summing) addUp(ctx context.Context) error {
	defer close(s.given)
	defer close(s.taken)
	return each(ctx, s.kept, func(t *travelling) error {
		p := &piece{bucket: t.bucket, of: t.pieces[s.group.Rank()]}
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
		terms[first[s.group.Rank()]+i] = term
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
		for _, to := range s.peers(1) {
			raw := pick(p.wire, s.wire.bytes(), p.runs(p.of, func(owner int) bool { return s.needs(owner, to) }), run.inPiece)
			if len(raw) == 0 {
				continue
			}
			if err := s.send(ctx, to, s.tag, raw); err != nil {
				return err
			}
			s.spread += uint64(len(raw))
		}
		return nil
	})
}

// collect takes what this rank needs of all pieces and writes it to the devices.
func (s *summing) collect(ctx context.Context) error {
	own, size := s.group.Rank(), s.wire.bytes()
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

// send gives a rank a message, or says that it did not take it.
func (s *summing) send(ctx context.Context, to int, tag transport.Tag, raw []byte) error {
	what := s.group.name(to) + " to take gradients"
	within, done := s.group.within(ctx, what)
	defer done()
	if err := s.meter.wire(func() error { return s.group.Send(within, to, tag, raw) }); err != nil {
		return s.blamed(ctx, within, what, err)
	}
	return nil
}

// receive takes what a rank has to give.
func (s *summing) receive(ctx context.Context, from int, tag transport.Tag, raw []byte, what string) error {
	what += " of " + s.group.name(from)
	within, done := s.group.within(ctx, what)
	defer done()
	if err := s.meter.wire(func() error { return s.group.Receive(within, from, tag, raw) }); err != nil {
		return s.blamed(ctx, within, "waiting for "+what, err)
	}
	return nil
}

// blamed is the error of a call, or what has ended the sum before it.
func (s *summing) blamed(sum, call context.Context, what string, err error) error {
	if sum.Err() != nil {
		return context.Cause(sum)
	}
	return s.group.failed(call, what, err)
}

// probe finds how devices add.
func probe(ctx context.Context, devices []*gpu.Device) (found addition, err error) {
	devices = slices.DeleteFunc(slices.Clone(devices), (*gpu.Device).Dry) // they are on other ranks
	if len(devices) == 0 {
		return found, errors.New("addition: found no device, wanted one or more")
	}
	for i, dev := range devices {
		sums, err := probed(ctx, dev)
		if err != nil {
			return found, fmt.Errorf("addition: %w", err)
		}
		one, ok := findAddition(sums)
		switch {
		case !ok:
			return found, fmt.Errorf("addition: %s: its sums are none that the host makes, with denormals or without: it cannot train with other ranks", dev.Adapter())
		case i > 0 && one != found:
			return found, fmt.Errorf("addition: %s treats denormals otherwise than %s: they cannot train together with other ranks", dev.Adapter(), devices[0].Adapter())
		}
		found = one
	}
	return found, nil
}

// probed are the sums of the probes, made by the kernel that adds up gradients.
func probed(ctx context.Context, dev *gpu.Device) ([]float32, error) {
	left, right := probes()
	layout, err := buffers.NewLayout([]buffers.Spec{{Path: "probe", Shape: []int{len(left)}}}, dev.Limits())
	if err != nil {
		return nil, err
	}
	var trees []*buffers.Tree
	defer func() {
		for _, t := range trees {
			t.Release()
		}
	}()
	for _, values := range [][]float32{left, right} {
		t, err := buffers.NewTree(dev, "cluster.probe", layout, buffers.F32)
		if err != nil {
			return nil, err
		}
		trees = append(trees, t)
		if err := t.Write("probe", values); err != nil {
			return nil, err
		}
	}
	rec := dev.Record("gputrain.cluster.probe")
	if err := buffers.Sum(rec, nil, trees[1], trees...); err != nil {
		return nil, err
	}
	if err := rec.Submit(ctx); err != nil {
		return nil, err
	}
	return trees[1].Read(ctx, "probe")
}
