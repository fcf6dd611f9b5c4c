package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gputrain/gpu"
)

// hostLink is a Link through the host's memory. It allocates nothing after it was made.
type hostLink struct {
	name   string
	frames []frame
	empty  chan int // frames that nobody has
	full   chan sent
	once   sync.Once
	closed chan struct{}
}

// frame is the memory of one message.
type frame struct {
	bytes   []byte // of the message as it travels between ranks: its number, eight bytes, and its tensors
	tensors [][]byte
}

// numberBytes is what the number of a microbatch takes.
const numberBytes = 8

type sent struct{ frame, microbatch int }

// newHostLink makes a link for messages of the given sizes, bytes a tensor. It holds capacity messages, 1 or more, that are sent and not yet
// received, in memory for one more, which is being filled or emptied meanwhile: capacity messages can always be sent to a receiver
// that does not hold one.
func newHostLink(name string, capacity int, sizes []uint64) *hostLink {
	n := capacity + 1
	l := &hostLink{name: name, frames: make([]frame, n), empty: make(chan int, n), full: make(chan sent, capacity), closed: make(chan struct{})}
	whole := uint64(numberBytes)
	for _, size := range sizes {
		whole += size
	}
	for i := range l.frames {
		f := &l.frames[i]
		f.bytes = make([]byte, whole)
		rest := f.bytes[numberBytes:]
		for _, size := range sizes {
			f.tensors = append(f.tensors, rest[:size:size])
			rest = rest[size:]
		}
		l.empty <- i
	}
	return l
}

// Buffer implements Link.
func (l *hostLink) Buffer(ctx context.Context) (Message, error) {
	if l.isClosed() {
		return Message{}, l.fail("buffer", ErrLinkClosed)
	}
	start := time.Now()
	select {
	case i := <-l.empty:
		return l.message(sent{frame: i}), nil
	case <-l.closed:
		return Message{}, l.fail("buffer", ErrLinkClosed)
	case <-ctx.Done():
		return Message{}, l.late(ctx, "buffer", start)
	}
}

// Send implements Link.
func (l *hostLink) Send(ctx context.Context, m Message) error {
	if l.isClosed() {
		return l.fail("send", ErrLinkClosed)
	}
	start := time.Now()
	select {
	case l.full <- sent{m.frame, m.Microbatch}:
		return nil
	case <-l.closed:
		return l.fail("send", ErrLinkClosed)
	case <-ctx.Done():
		return l.late(ctx, "send", start)
	}
}

// Receive implements Link.
func (l *hostLink) Receive(ctx context.Context) (Message, error) {
	if l.isClosed() {
		return Message{}, l.fail("receive", ErrLinkClosed)
	}
	start := time.Now()
	select {
	case s := <-l.full:
		return l.message(s), nil
	case <-l.closed:
		return Message{}, l.fail("receive", ErrLinkClosed)
	case <-ctx.Done():
		return Message{}, l.late(ctx, "receive", start)
	}
}

// Free implements Link. It never waits: there is room for every frame.
func (l *hostLink) Free(m Message) { l.empty <- m.frame }

// Close implements Link.
func (l *hostLink) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// isClosed is asked before each wait: with several things to wait for, any that is ready might be taken.
func (l *hostLink) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func (l *hostLink) message(s sent) Message {
	return Message{s.microbatch, l.frames[s.frame].tensors, s.frame}
}

func (l *hostLink) fail(operation string, err error) error {
	return fmt.Errorf("pipeline: link %s: %s: %w", l.name, operation, err)
}

// late is the error of a wait that the context ended: its cause, and gpu.ErrTimeout where that was a deadline.
func (l *hostLink) late(ctx context.Context, operation string, start time.Time) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("%w after %s: %w", gpu.ErrTimeout, time.Since(start).Round(time.Millisecond), cause)
	}
	return l.fail(operation, cause)
}

// ErrLinkClosed says that a link was closed while, or before, it was used; test with errors.Is.
var ErrLinkClosed = errors.New("link is closed")

// Link carries what one part hands to another, microbatch after microbatch, in order and one way. Between ranks each end is a Link of its own, which has
// the calls of that end.
//
// The memory of messages belongs to the link. The sender takes an empty message with Buffer, fills it and gives it up with Send; the
// receiver has it from Receive until Free. Every call may come from another goroutine, and all of them end when the context does, the
// link is closed, or, over a network, the other end is gone.
type Link interface {
	// Buffer is an empty message to fill; it waits while all of the link's memory is on its way. Send or Free gives it up.
	Buffer(ctx context.Context) (Message, error)
	// Send hands a filled message over; it waits while the link is full. After an error the message is still the sender's.
	Send(ctx context.Context, m Message) error
	// Receive is the oldest message sent; it waits until there is one.
	Receive(ctx context.Context) (Message, error)
	// Free gives the memory of a message back that was received, or that was not sent.
	Free(m Message)
	// Close ends the link: every call under way or to come fails with ErrLinkClosed, what was not received is dropped.
	Close() error
}

// Message is what crosses a link at once: the bytes of each tensor at the cut, for one microbatch.
type Message struct {
	Microbatch int
	Tensors    [][]byte // sizes are the link's; fill them in place
	frame      int      // of a hostLink
}
