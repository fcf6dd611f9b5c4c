package pipeline

import (
	"context"
	"encoding/binary"
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

// Send implements Link.
func (l *sendingEnd) Send(ctx context.Context, m Message) error {
	operation := fmt.Sprintf("send microbatch %d", m.Microbatch)
	if l.isClosed() {
		return l.fail(operation, ErrLinkClosed)
	}
	bytes := l.frames[m.frame].bytes
	binary.LittleEndian.PutUint64(bytes, uint64(m.Microbatch))
	if err := l.mesh.Send(ctx, l.rank, l.tag, bytes); err != nil {
		return l.fail(operation, err)
	}
	l.Free(m)
	return nil
}

// receivingEnd is the end of a link between ranks that receives: what fetch has got.
type receivingEnd struct {
	*hostLink
	peer
}

// fetch gets n messages from the other rank, as long as there is memory for one. No more than are sent may be asked for: a wait in vain
// ends all ranks.
func (l *receivingEnd) fetch(ctx context.Context, n int, moved func()) error {
	for range n {
		m, err := l.Buffer(ctx)
		if err != nil {
			return err
		}
		bytes := l.frames[m.frame].bytes
		if err := l.mesh.Receive(ctx, l.rank, l.tag, bytes); err != nil {
			l.Free(m)
			return l.fail("fetch", err)
		}
		m.Microbatch = int(binary.LittleEndian.Uint64(bytes))
		if err := l.Send(ctx, m); err != nil {
			return err
		}
		moved()
	}
	return nil
}
