package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
)

// Tags of messages between the ranks of a pipeline; those below are for others who use the same ranks.
const (
	tagResults transport.Tag = 1<<10 + iota // of evaluation and sampling
	firstTag                                // of the links, and of copies behind them
)

// A link between ranks has an end on each of them. A message travels as one, behind its number. The transport orders messages by their tag, which
// is the link's.

// errOtherEnd is a call that belongs to the other end of a link between ranks.
var errOtherEnd = errors.New("the call is for the end on the other rank")

// peer is the other end of a link between ranks.
type peer struct {
	mesh *mesh.Mesh
	rank int
	tag  transport.Tag
}

// sendingEnd is the end of a link between ranks that sends. Send waits until the transport has taken the message.
type sendingEnd struct {
	*hostLink
	peer
}

func newSendingEnd(name string, sizes []uint64, to peer) (*sendingEnd, error) {
	l, err := newHostLink(name, 1, sizes)
	return &sendingEnd{l, to}, err
}

// Send implements Link.
func (l *sendingEnd) Send(ctx context.Context, m Message) error {
	operation := fmt.Sprintf("send microbatch %d", m.Microbatch)
	if l.isClosed() {
		return l.fail(operation, ErrLinkClosed)
	}
	i, err := l.take(m)
	if err != nil {
		return l.fail(operation, err)
	}
	f := &l.frames[i]
	binary.LittleEndian.PutUint64(f.bytes, uint64(m.Microbatch))
	if err := l.mesh.Send(ctx, l.rank, l.tag, f.bytes); err != nil {
		f.turn.Add(^uint64(0)) // the sender's again
		return l.fail(operation, err)
	}
	l.Free(l.message(sent{frame: i}))
	return nil
}

// Receive implements Link.
func (l *sendingEnd) Receive(context.Context) (Message, error) {
	return Message{}, l.fail("receive", errOtherEnd)
}

// receivingEnd is the end of a link between ranks that receives: what fetch has got.
type receivingEnd struct {
	*hostLink
	peer
}

func newReceivingEnd(name string, capacity int, sizes []uint64, from peer) (*receivingEnd, error) {
	l, err := newHostLink(name, capacity, sizes)
	return &receivingEnd{l, from}, err
}

// fetch gets n messages from the other rank, as long as there is memory for one. No more than are sent may be asked for: a wait in vain
// ends all ranks.
func (l *receivingEnd) fetch(ctx context.Context, n int, moved func()) error {
	for range n {
		m, err := l.hostLink.Buffer(ctx)
		if err != nil {
			return err
		}
		f := &l.frames[m.Ticket%uint64(len(l.frames))]
		if err := l.mesh.Receive(ctx, l.rank, l.tag, f.bytes); err != nil {
			l.Free(m)
			return l.fail("fetch", err)
		}
		m.Microbatch = int(binary.LittleEndian.Uint64(f.bytes))
		if err := l.hostLink.Send(ctx, m); err != nil {
			return err
		}
		moved()
	}
	return nil
}

// Buffer implements Link.
func (l *receivingEnd) Buffer(context.Context) (Message, error) {
	return Message{}, l.fail("buffer", errOtherEnd)
}

// Send implements Link.
func (l *receivingEnd) Send(context.Context, Message) error { return l.fail("send", errOtherEnd) }
