//go:build unix

package mpi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"gputrain/transport"
)

// ranks is the processes of an MPI job.
type ranks struct {
	engine            *engine
	messages, control int // channels
	rank, size        int
	hosts             []string

	collective sync.Mutex // one call of all ranks at a time
	pool       pool

	mu      sync.Mutex
	calls   []*call // under way, the oldest first
	entered int     // calls of all ranks that this one has come to
	failure *transport.Error
	failed  chan struct{} // closed when there is a failure
	answers map[int]where // of a question under way
	left    map[int]int   // ranks that have closed, and to how many calls of all ranks each has come
	leaving chan struct{} // closed when left changes
	closing bool
	closed  chan struct{} // closed when all ranks are closing
	hub     hub
}

// call is one under way.
type call struct {
	operation string
	awaits    int // a rank, or all
	number    int // of a call of all ranks, from 1 on
}

// all ranks are awaited.
const all = -1

// Open joins the processes that were launched together; all must.
func Open() (transport.Ranks, error) {
	e, err := start()
	if err != nil {
		return nil, err
	}
	return join(e)
}

// join makes ranks of the processes that the library has found.
func join(e *engine) (*ranks, error) {
	r := &ranks{
		engine: e, rank: e.rank, size: e.size, hosts: make([]string, e.size),
		failed: make(chan struct{}), closed: make(chan struct{}), left: map[int]int{}, leaving: make(chan struct{}),
	}
	for _, channel := range []*int{&r.messages, &r.control} {
		var err error
		if *channel, err = e.channel(); err != nil {
			return nil, err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("transport/mpi: open: %w", err)
	}
	r.hosts[r.rank] = host
	names, err := r.Gather(context.Background(), []byte(host))
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		r.hosts[i] = string(name)
	}
	go r.listen() // what comes names hosts
	return r, nil
}

func (r *ranks) Rank() int            { return r.rank }
func (r *ranks) Size() int            { return r.size }
func (r *ranks) Host(rank int) string { return r.hosts[rank] }

// A message travels in pieces. Each has room for the length of the whole, which is in the first.
const (
	pieceBytes  = 1 << 20
	headerBytes = 8
	window      = 4 // pieces of a message under way
)

func (r *ranks) Send(ctx context.Context, to int, tag transport.Tag, b []byte) error {
	if err := transport.CheckPeer(r, "send", to, tag); err != nil {
		return err
	}
	c, err := r.enter(ctx, "send", to)
	if err != nil {
		return err
	}
	defer r.leave(c)
	return r.flow(ctx, c, len(b), func(m memory, at, n int) <-chan ended {
		head := header(at)
		if head > 0 {
			binary.LittleEndian.PutUint64(m.bytes(), uint64(len(b)))
		}
		copy(m.bytes()[head:], b[at:at+n])
		return r.engine.send(r.messages, m, head+n, to, int(tag))
	}, nil)
}

func (r *ranks) Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error {
	if err := transport.CheckPeer(r, "receive", from, tag); err != nil {
		return err
	}
	c, err := r.enter(ctx, "receive", from)
	if err != nil {
		return err
	}
	defer r.leave(c)
	return r.flow(ctx, c, len(b), func(m memory, _, _ int) <-chan ended {
		return r.engine.receive(r.messages, m, from, int(tag))
	}, func(m memory, at, n, count int) error {
		head := header(at)
		if head > 0 {
			if length := int(binary.LittleEndian.Uint64(m.bytes())); length != len(b) {
				return transport.WrongLength(length, len(b))
			}
		}
		if count != head+n {
			return transport.WrongLength(at+count-head, len(b))
		}
		copy(b[at:at+n], m.bytes()[head:])
		return nil
	})
}

// header is how many bytes of the piece that begins at a place are not the message's.
func header(at int) int {
	if at == 0 {
		return headerBytes
	}
	return 0
}

// flow moves the pieces of a message of n bytes, a few at a time: begin starts one, and end takes it when it is there.
func (r *ranks) flow(ctx context.Context, c *call, n int, begin func(m memory, at, n int) <-chan ended, end func(m memory, at, n, count int) error) error {
	type piece struct {
		m     memory
		at, n int
		over  <-chan ended
	}
	var under []piece
	for next, started := 0, false; ; {
		for len(under) < window && (next < n || !started) {
			p := piece{m: r.pool.take(), at: next, n: min(n-next, pieceBytes)}
			p.over = begin(p.m, p.at, p.n)
			under = append(under, p)
			next, started = next+p.n, true
		}
		if len(under) == 0 {
			return nil
		}
		p := under[0]
		count, err := r.await(ctx, c, p.over)
		if err != nil {
			return err // the library may still write to what is under way: it is not used again
		}
		if end != nil {
			if err := end(p.m, p.at, p.n, count); err != nil {
				return r.fail(c, c.awaits, err)
			}
		}
		r.pool.give(p.m)
		under = under[1:]
	}
}

// Broadcast sends what the root has in pieces. All lengths are known before.
func (r *ranks) Broadcast(ctx context.Context, root int, b []byte) error {
	if root < 0 || root >= r.size {
		return fmt.Errorf("transport: broadcast: found root %d, wanted one of %d ranks", root, r.size)
	}
	c, lengths, err := r.meet(ctx, "broadcast", len(b))
	if err != nil {
		return err
	}
	defer r.part(c)
	for i, n := range lengths { // every rank sees the same, and blames the same
		if n != lengths[root] {
			return r.fail(c, i, transport.WrongLength(lengths[root], n))
		}
	}
	if len(b) == 0 {
		return nil
	}
	return r.flow(ctx, c, len(b), func(m memory, at, n int) <-chan ended {
		if r.rank == root {
			copy(m.bytes(), b[at:at+n])
		}
		return r.engine.broadcast(r.messages, m, n, root)
	}, func(m memory, at, n, _ int) error {
		copy(b[at:at+n], m.bytes())
		return nil
	})
}

// roundBytes is how much all ranks together give in a round, as the library's places are C's int.
var roundBytes = 64 << 20

func (r *ranks) Gather(ctx context.Context, own []byte) ([][]byte, error) {
	c, lengths, err := r.meet(ctx, "gather", len(own))
	if err != nil {
		return nil, err
	}
	defer r.part(c)
	given := make([][]byte, r.size)
	longest, share := 0, max(roundBytes/r.size, 1<<10)
	for i, n := range lengths {
		given[i], longest = make([]byte, n), max(longest, n)
	}
	for at := 0; at < longest; at += share {
		part := func(i int) []byte { return given[i][min(at, lengths[i]):min(at+share, lengths[i])] }
		counts := make([]int, r.size)
		for i := range counts {
			counts[i] = len(part(i))
		}
		err := r.round(ctx, c, own[min(at, len(own)):min(at+share, len(own))], counts, func(i int, b []byte) { copy(part(i), b) })
		if err != nil {
			return nil, err
		}
	}
	return given, nil
}

// round gathers as many bytes of each rank as counts say, and hands each rank's to take.
func (r *ranks) round(ctx context.Context, c *call, own []byte, counts []int, take func(rank int, b []byte)) error {
	total := 0
	places := [2]memory{allocate(4 * r.size), allocate(4 * r.size)} // counts, offsets
	for i, n := range counts {
		places[0].put(i, n)
		places[1].put(i, total)
		total += n
	}
	from, to := allocate(len(own)), allocate(total)
	copy(from.bytes(), own)
	if _, err := r.await(ctx, c, r.engine.gather(r.messages, from, len(own), to, places[0], places[1])); err != nil {
		return err
	}
	at := 0
	for i, n := range counts {
		take(i, to.bytes()[at:at+n])
		at += n
	}
	for _, m := range []memory{places[0], places[1], from, to} {
		m.free()
	}
	return nil
}

func (r *ranks) Barrier(ctx context.Context) error {
	c, _, err := r.meet(ctx, "barrier", 0)
	if err != nil {
		return err
	}
	r.part(c)
	return nil
}

// kinds are the calls of all ranks.
var kinds = []string{"barrier", "broadcast", "gather"}

// meet begins a call of all ranks, of which it makes sure that all make the same, and gives the length of each rank's bytes. End it with part.
func (r *ranks) meet(ctx context.Context, operation string, length int) (*call, []int, error) {
	r.collective.Lock()
	c, err := r.enter(ctx, operation, all)
	if err != nil {
		r.collective.Unlock()
		return nil, nil, err
	}
	heads := make([]struct{ kind, length uint64 }, r.size)
	own := binary.LittleEndian.AppendUint64(nil, kindOf(operation))
	own = binary.LittleEndian.AppendUint64(own, uint64(length))
	counts := make([]int, r.size)
	for i := range counts {
		counts[i] = len(own)
	}
	err = r.round(ctx, c, own, counts, func(i int, b []byte) {
		heads[i].kind, heads[i].length = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	})
	lengths := make([]int, r.size)
	for i := 0; err == nil && i < r.size; i++ {
		if lengths[i] = int(heads[i].length); heads[i].kind != heads[0].kind {
			err = r.fail(c, i, fmt.Errorf("it has come to %s, rank 0 to %s", kinds[heads[i].kind], kinds[heads[0].kind]))
		}
	}
	if err != nil {
		r.part(c)
		return nil, nil, err
	}
	return c, lengths, nil
}

func (r *ranks) part(c *call) {
	r.leave(c)
	r.collective.Unlock()
}

func kindOf(operation string) uint64 {
	for i, k := range kinds {
		if k == operation {
			return uint64(i)
		}
	}
	panic("transport/mpi: no call of all ranks is named " + operation)
}

// enter begins a call, which others can then ask for.
func (r *ranks) enter(ctx context.Context, operation string, awaits int) (*call, error) {
	r.mu.Lock()
	c := &call{operation: operation, awaits: awaits}
	failure, closing := r.failure, r.closing
	if failure == nil && !closing {
		if awaits == all {
			r.entered++
			c.number = r.entered
		}
		r.calls = append(r.calls, c)
	}
	r.mu.Unlock()
	switch {
	case failure != nil:
		return nil, failure.During(operation)
	case closing:
		return nil, r.blame(operation, r.rank, transport.ErrClosed)
	case ctx.Err() != nil:
		defer r.leave(c)
		return nil, r.fail(c, r.rank, context.Cause(ctx))
	}
	return c, nil
}

func (r *ranks) leave(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.calls {
		if other == c {
			r.calls = append(r.calls[:i], r.calls[i+1:]...)
			return
		}
	}
}

// leftPatience is how long a message of a rank that has left may be on its way.
var leftPatience = 2 * time.Second

// await waits for a request of a call.
func (r *ranks) await(ctx context.Context, c *call, over <-chan ended) (count int, err error) {
	var patience <-chan time.Time
	for {
		rank, leaving := r.gone(c)
		if rank >= 0 && patience == nil {
			patience = time.After(leftPatience)
		}
		select {
		case e := <-over:
			if e.err != nil {
				return 0, r.fail(c, c.awaits, e.err)
			}
			return e.count, nil
		case <-r.failed:
			return 0, r.failure.During(c.operation)
		case <-leaving:
		case <-patience:
			return 0, r.fail(c, rank, transport.ErrLeft)
		case <-ctx.Done():
			return 0, r.late(ctx, c)
		}
	}
}

// gone is a rank that a call awaits although it has left, or negative. The channel is closed when that may change.
func (r *ranks) gone(c *call) (rank int, leaving <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rank, entered := range r.left {
		if c.awaits == rank || c.awaits == all && entered < c.number {
			return rank, r.leaving
		}
	}
	return -1, r.leaving
}

func (r *ranks) blame(operation string, rank int, err error) *transport.Error {
	return &transport.Error{Operation: operation, Rank: rank, Host: r.hosts[rank], By: r.rank, Err: err}
}

// fail ends all calls of all ranks. It returns the first failure, which may be another's.
func (r *ranks) fail(c *call, rank int, err error) error {
	if rank == all {
		rank = r.rank
	}
	e := r.blame(c.operation, rank, err)
	if first := r.set(e); first != e {
		return first.During(c.operation)
	}
	r.tell(e)
	return e
}

// set keeps the first failure.
func (r *ranks) set(e *transport.Error) *transport.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = e
		close(r.failed)
	}
	return r.failure
}

func (r *ranks) Fail(err error) {
	_ = r.fail(&call{operation: "fail"}, r.rank, err) // the caller has it
}

// closePatience is how long others may take to close too, and the library to end.
const closePatience = 20 * time.Second

// toldPatience is how long a rank that was told of a failure stays, so that the exit code of a job is that of the rank that failed: mpirun takes the
// first, and then ends the others.
var toldPatience = 2 * time.Second

func (r *ranks) Close() error {
	r.mu.Lock()
	again := r.closing
	r.closing = true
	failure := r.failure
	r.mu.Unlock()
	if again {
		return nil
	}
	if failure == nil {
		failure = r.takeLeave()
	}
	if failure != nil {
		if failure.By != r.rank {
			time.Sleep(toldPatience)
		}
		return failure.During("close")
	}
	select {
	case err := <-r.engine.finalize():
		return err
	case <-time.After(closePatience):
		return errors.New("transport/mpi: close: the library does not end")
	}
}

// pool is memory for pieces.
type pool struct {
	mu   sync.Mutex
	free []memory
}

func (p *pool) take() memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		m := p.free[n-1]
		p.free = p.free[:n-1]
		return m
	}
	return allocate(pieceBytes + headerBytes)
}

func (p *pool) give(m memory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, m)
}
