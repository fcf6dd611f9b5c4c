package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
)

// rankLinks are the two ends of a link between two ranks of a process.
func rankLinks(t *testing.T, capacity int, sizes ...uint64) (all []transport.Ranks, out *sendingEnd, in *receivingEnd) {
	t.Helper()
	all = transport.Local(2)
	out = &sendingEnd{newHostLink("0 to 1", 1, sizes), peer{mesh.New(all[0], mesh.Config{}), 1, firstTag}}
	in = &receivingEnd{newHostLink("0 to 1", capacity, sizes), peer{mesh.New(all[1], mesh.Config{}), 0, firstTag}}
	return all, out, in
}

// A link between ranks keeps order and bytes, in memory that it made at first.
func TestRankLinkKeepsOrder(t *testing.T) {
	_, out, in := rankLinks(t, 2, 100, 4)
	const n = 300
	ended := make(chan error, 2)
	go func() { ended <- in.fetch(t.Context(), n, func() {}) }()
	go func() {
		for i := range n {
			if err := sendMarked(t.Context(), out, i); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	memory := map[*byte]bool{}
	for i := range n {
		m, err := in.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, i, m.Microbatch)
		require.Equal(t, uint32(i), binary.LittleEndian.Uint32(m.Tensors[0]))
		require.Equal(t, uint32(i), binary.LittleEndian.Uint32(m.Tensors[1]))
		memory[&m.Tensors[0][0]] = true
		in.Free(m)
	}
	require.NoError(t, errors.Join(<-ended, <-ended))
	assert.LessOrEqual(t, len(memory), 3)
}

// Where the receiver does not come the sender waits: no more messages are under way than the link has memory for.
func TestRankLinkHoldsBack(t *testing.T) {
	_, out, in := rankLinks(t, 2, 8)
	go func() { assert.NoError(t, in.fetch(t.Context(), 8, func() {})) }()
	sent := make(chan int, 8)
	go func() {
		for i := range 8 {
			assert.NoError(t, sendMarked(t.Context(), out, i))
			sent <- i
		}
	}()
	for i := range 3 {
		require.Equal(t, i, <-sent, "two that wait, and one that the receiver has not asked for")
	}
	select {
	case i := <-sent:
		t.Fatalf("message %d was taken, of which none had been received", i)
	case <-time.After(20 * time.Millisecond):
	}
	for i := range 8 {
		require.NoError(t, receiveMarked(t.Context(), in, i))
	}
}

// Every wait ends: by the context, by Close, and by the failure of the other rank, which is named.
func TestRankLinkWaitsEnd(t *testing.T) {
	why := errors.New("stage 2 is gone")
	waits := map[string]func(ctx context.Context, out *sendingEnd, in *receivingEnd) error{
		"send":  func(ctx context.Context, out *sendingEnd, _ *receivingEnd) error { return sendMarked(ctx, out, 0) },
		"fetch": func(ctx context.Context, _ *sendingEnd, in *receivingEnd) error { return in.fetch(ctx, 1, func() {}) },
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			_, out, in := rankLinks(t, 1, 8)
			time.AfterFunc(time.Millisecond, func() { cancel(why) })
			require.ErrorIs(t, wait(ctx, out, in), why)

			all, out, in := rankLinks(t, 1, 8)
			other := 1
			if name == "fetch" {
				other = 0
			}
			time.AfterFunc(time.Millisecond, func() { all[other].Fail(why) })
			err := wait(t.Context(), out, in)
			require.ErrorIs(t, err, why)
			var noticed *transport.Error
			require.ErrorAs(t, err, &noticed)
			require.Equal(t, other, noticed.Rank)

			_, out, in = rankLinks(t, 1, 8)
			require.NoError(t, errors.Join(out.Close(), in.Close()))
			require.ErrorIs(t, wait(t.Context(), out, in), ErrLinkClosed)
		})
	}
}
