package pipeline

import (
	"context"
	"errors"
)

// ErrLinkClosed says that a link was closed while, or before, it was used; test with errors.Is.
var ErrLinkClosed = errors.New("link is closed")

// Link carries what one part hands to another, microbatch after microbatch, in order and one way. A link in this process is made by
// NewHostLink; the interface is all that an implementation over a network needs: there each end is a Link of its own and refuses the calls of
// the other end.
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
	// Free gives a message's memory back, sent or not. A message that was given up before is left alone.
	Free(m Message)
	// Close ends the link: every call under way or to come fails with ErrLinkClosed, what was not received is dropped.
	Close() error
}

// Message is what crosses a link at once: the bytes of each tensor at the cut, for one microbatch.
type Message struct {
	Microbatch int
	Tensors    [][]byte // sizes are the link's; fill them in place
	Ticket     uint64   // the link's own mark of whose turn this memory is
}
