package gpu

import (
	"context"
	"fmt"
	"sync"
)

// Readback is a ring of staging buffers for small results that are read one or more submits late. Each submit of a program
// that has a ReadBack of it fills the next buffer; Next takes the oldest.
type Readback struct {
	device *Device
	label  string
	bytes  uint64

	turn    sync.Mutex // one Next at a time; a Submit may go on meanwhile
	mu      sync.Mutex // of what follows
	slots   []*readbackSlot
	head    int // the oldest outstanding
	pending int
}

type readbackSlot struct {
	ring   *Readback
	buffer *Buffer
	fence  nativeFence
	used   uint64
}

// NewReadback makes a ring of depth buffers of the given size. A ring takes depth results before Next must be called.
func (d *Device) NewReadback(label string, bytes uint64, depth int) (*Readback, error) {
	if depth < 1 {
		return nil, fmt.Errorf("gpu: new readback %q: depth %d, want at least 1", label, depth)
	}
	rb := &Readback{device: d, label: label, bytes: alignUp(max(bytes, 4), 4)}
	for range depth {
		b, err := d.newBuffer(label, rb.bytes, usageStaging)
		if err != nil {
			rb.Release()
			return nil, err
		}
		s := &readbackSlot{ring: rb, buffer: b}
		if d.native != nil {
			s.fence = makeFence()
		}
		rb.slots = append(rb.slots, s)
	}
	return rb, nil
}

func (rb *Readback) take(bytes uint64) (*readbackSlot, error) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if len(rb.slots) == 0 {
		return nil, fmt.Errorf("readback %q: is released", rb.label)
	}
	if rb.pending == len(rb.slots) {
		return nil, fmt.Errorf("readback %q: all %d buffers hold results not yet taken with Next", rb.label, rb.pending)
	}
	s := rb.slots[(rb.head+rb.pending)%len(rb.slots)]
	rb.pending++
	s.used = bytes
	resetFence(s.fence)
	return s, nil
}

// untake gives back the slot taken last.
func (rb *Readback) untake() {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	rb.pending--
}

// takeSlots takes one slot for each ReadBack of the programs, all or none.
func takeSlots(programs []*Program) ([]*readbackSlot, error) {
	var taken []*readbackSlot
	for _, p := range programs {
		for i, rb := range p.readbacks {
			s, err := rb.take(p.sizes[i])
			if err != nil {
				untake(taken)
				return nil, err
			}
			taken = append(taken, s)
		}
	}
	return taken, nil
}

// untake gives back the slots taken last.
func untake(taken []*readbackSlot) {
	for _, s := range taken {
		s.ring.untake()
	}
}

// stagingsOf are the slots as the library takes them.
func stagingsOf(taken []*readbackSlot) (out []nativeStaging) {
	for _, s := range taken {
		out = append(out, makeStaging(s.buffer.native, s.used, s.fence))
	}
	return out
}

// Next waits for the oldest outstanding result and returns its bytes. With none outstanding: an error.
func (rb *Readback) Next(ctx context.Context) ([]byte, error) {
	var out []byte
	if _, err := rb.next(ctx, func(n int) ([]byte, error) {
		out = make([]byte, n)
		return out, nil
	}); err != nil {
		return nil, fmt.Errorf("gpu: readback %q: %w", rb.label, err)
	}
	return out, nil
}

// NextInto is Next into memory of the caller's: it allocates nothing. It returns the bytes of the result; where dst is shorter that is
// an error, and the result stays outstanding.
func (rb *Readback) NextInto(ctx context.Context, dst []byte) (int, error) {
	n, err := rb.next(ctx, func(n int) ([]byte, error) {
		if n > len(dst) {
			return nil, fmt.Errorf("room for %d bytes, wanted %d", len(dst), n)
		}
		return dst[:n], nil
	})
	if err != nil {
		return 0, fmt.Errorf("gpu: readback %q: %w", rb.label, err)
	}
	return n, nil
}

// Wait waits until the oldest outstanding result is there, and leaves it: the next NextInto only copies.
func (rb *Readback) Wait(ctx context.Context) error {
	rb.turn.Lock()
	defer rb.turn.Unlock()
	if _, err := rb.arrive(ctx); err != nil {
		return fmt.Errorf("gpu: readback %q: %w", rb.label, err)
	}
	return nil
}

// arrive waits for the oldest outstanding result. The caller holds turn.
func (rb *Readback) arrive(ctx context.Context) (*readbackSlot, error) {
	if err := rb.device.ready(); err != nil {
		return nil, err
	}
	s := rb.oldest()
	if s == nil {
		return nil, fmt.Errorf("nothing outstanding")
	}
	return s, rb.device.wait(ctx, s.fence, "wait for the result")
}

// next copies the oldest outstanding result to where room, called with its size once it is there, says.
func (rb *Readback) next(ctx context.Context, room func(int) ([]byte, error)) (int, error) {
	rb.turn.Lock()
	defer rb.turn.Unlock()
	s, err := rb.arrive(ctx)
	if err != nil {
		return 0, err
	}
	dst, err := room(int(s.used))
	if err != nil {
		return 0, err
	}
	d := rb.device
	if !d.native.readMapped(s.buffer.native, dst) {
		return 0, fmt.Errorf("the staging buffer is not mapped")
	}
	rb.mu.Lock()
	rb.head = (rb.head + 1) % len(rb.slots)
	rb.pending--
	rb.mu.Unlock()
	d.counts.readbacks.Add(1)
	d.counts.read.Add(s.used)
	return len(dst), nil
}

func (rb *Readback) oldest() *readbackSlot {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if rb.pending == 0 {
		return nil
	}
	return rb.slots[rb.head]
}

// Pending is how many results are outstanding.
func (rb *Readback) Pending() int {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	return rb.pending
}

// Release gives the ring's buffers back; results outstanding are dropped.
func (rb *Readback) Release() {
	if rb == nil {
		return
	}
	rb.turn.Lock()
	defer rb.turn.Unlock()
	rb.mu.Lock()
	defer rb.mu.Unlock()
	for _, s := range rb.slots {
		s.buffer.Release() // its fence stays with the library, which may still set it
	}
	rb.slots, rb.pending, rb.head = nil, 0, 0
}
