//go:build unix

package mpi

import (
	"context"
	"encoding/binary"
	"sync"

	"gputrain/internal/ranks/transport"
)

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
