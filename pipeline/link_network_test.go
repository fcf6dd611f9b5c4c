package pipeline_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/pipeline"
)

// networkLink is one end of a link over a connection: the sender's or the receiver's. Its memory is a HostLink's of its own; what the other end
// knows of a message is only its bytes.
type networkLink struct {
	*pipeline.HostLink
	conn net.Conn
	end  sync.Once
}

var errWrongEnd = errors.New("the other end's call")

type sendingEnd struct{ *networkLink }

func (sendingEnd) Receive(context.Context) (pipeline.Message, error) {
	return pipeline.Message{}, errWrongEnd
}

type receivingEnd struct{ *networkLink }

func (receivingEnd) Buffer(context.Context) (pipeline.Message, error) {
	return pipeline.Message{}, errWrongEnd
}
func (receivingEnd) Send(context.Context, pipeline.Message) error { return errWrongEnd }

func (l *networkLink) Close() error {
	l.end.Do(func() { _ = l.conn.Close() })
	return l.HostLink.Close()
}

// newSendingEnd writes what is sent to the connection; the other end says when it has room again.
func newSendingEnd(t testing.TB, conn net.Conn, capacity int, sizes []uint64) pipeline.Link {
	l := &networkLink{HostLink: hostLink(t, capacity, sizes...), conn: conn}
	room := make(chan struct{}, capacity)
	for range capacity {
		room <- struct{}{}
	}
	go func() {
		defer close(room)
		defer l.Close()
		for {
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				return
			}
			room <- struct{}{}
		}
	}()
	go func() {
		defer l.Close()
		for range room {
			m, err := l.HostLink.Receive(context.Background())
			if err != nil || writeMessage(conn, m) != nil {
				return
			}
			l.Free(m)
		}
	}()
	return sendingEnd{l}
}

func newReceivingEnd(t testing.TB, conn net.Conn, capacity int, sizes []uint64) pipeline.Link {
	l := &networkLink{HostLink: hostLink(t, capacity, sizes...), conn: conn}
	go func() {
		defer l.Close()
		for {
			m, err := l.HostLink.Buffer(context.Background())
			if err != nil || readMessage(conn, &m) != nil || l.HostLink.Send(context.Background(), m) != nil {
				return
			}
			if _, err := conn.Write([]byte{1}); err != nil {
				return
			}
		}
	}()
	return receivingEnd{l}
}

func writeMessage(w io.Writer, m pipeline.Message) error {
	if err := binary.Write(w, binary.LittleEndian, int64(m.Microbatch)); err != nil {
		return err
	}
	for _, tensor := range m.Tensors {
		if _, err := w.Write(tensor); err != nil {
			return err
		}
	}
	return nil
}

func readMessage(r io.Reader, m *pipeline.Message) error {
	var microbatch int64
	if err := binary.Read(r, binary.LittleEndian, &microbatch); err != nil {
		return err
	}
	m.Microbatch = int(microbatch)
	for _, tensor := range m.Tensors {
		if _, err := io.ReadFull(r, tensor); err != nil {
			return err
		}
	}
	return nil
}

// loopback are the two ends of a connection through the machine's network.
func loopback(t testing.TB) (dialed, accepted net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skipf("skipped, needs the loopback interface: %v", err)
	}
	defer listener.Close()
	dialed, err = net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	accepted, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = dialed.Close(); _ = accepted.Close() })
	return dialed, accepted
}

// twoEnds joins the ends of a link over a network, which nothing but a connection joins, so that a pipeline in one process can use it.
type twoEnds struct{ sending, receiving pipeline.Link }

func overNetwork(t testing.TB, capacity int, sizes []uint64) twoEnds {
	a, b := loopback(t)
	return twoEnds{newSendingEnd(t, a, capacity, sizes), newReceivingEnd(t, b, capacity, sizes)}
}

// received marks messages of the receiving end.
const received = 1 << 63

func (l twoEnds) Buffer(ctx context.Context) (pipeline.Message, error) { return l.sending.Buffer(ctx) }

func (l twoEnds) Send(ctx context.Context, m pipeline.Message) error { return l.sending.Send(ctx, m) }

func (l twoEnds) Close() error { return errors.Join(l.sending.Close(), l.receiving.Close()) }

func (l twoEnds) Receive(ctx context.Context) (pipeline.Message, error) {
	m, err := l.receiving.Receive(ctx)
	m.Ticket |= received
	return m, err
}

func (l twoEnds) Free(m pipeline.Message) {
	if m.Ticket&received == 0 {
		l.sending.Free(m)
		return
	}
	m.Ticket &^= received
	l.receiving.Free(m)
}

func TestNetworkLink(t *testing.T) {
	checkOrder(t, overNetwork(t, 2, []uint64{100, 4}), 300, 11)
}

// Each end of a network link fails when the other is closed.
func TestNetworkLinkCloses(t *testing.T) {
	for name, closes := range map[string]func(twoEnds) error{
		"sender": func(l twoEnds) error { return l.sending.Close() }, "receiver": func(l twoEnds) error { return l.receiving.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			l := overNetwork(t, 1, []uint64{4})
			require.NoError(t, sendMarked(t.Context(), l, 0))
			require.NoError(t, receiveMarked(t.Context(), l, 0))
			time.AfterFunc(time.Millisecond, func() { _ = closes(l) })
			require.ErrorIs(t, receiveMarked(t.Context(), l, 1), pipeline.ErrLinkClosed)
			var err error
			for start := time.Now(); err == nil && time.Since(start) < gputest.Patience; {
				err = sendMarked(t.Context(), l, 1)
			}
			require.ErrorIs(t, err, pipeline.ErrLinkClosed)
		})
	}
}

// A pipeline whose stages know of each other only through connections learns the same bits.
func TestPipelineOverANetwork(t *testing.T) {
	devices := gputest.Several(t, 2)
	c := config(tiny(t), "adamw", 3)
	want := unpipelined(t, devices[0], c, 3)
	links := 0
	got := pipelined(t, devices, pipeline.Config{
		State: c, Assignment: assignment(t, c, 2, 1),
		NewLink: func(_ string, capacity int, sizes []uint64) (pipeline.Link, error) {
			links++
			return overNetwork(t, capacity, sizes), nil
		},
	}, 3)
	requireSame(t, want, got)
	require.NotZero(t, links)
}
