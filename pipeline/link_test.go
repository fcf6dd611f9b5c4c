package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
)

func openLink(t testing.TB, capacity int, sizes ...uint64) *hostLink {
	t.Helper()
	l := newHostLink("0 to 1", capacity, sizes)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// sendMarked sends a message whose tensors all begin with the microbatch.
func sendMarked(ctx context.Context, l Link, microbatch int) error {
	m, err := l.Buffer(ctx)
	if err != nil {
		return err
	}
	m.Microbatch = microbatch
	for _, tensor := range m.Tensors {
		binary.LittleEndian.PutUint32(tensor, uint32(microbatch))
	}
	if err := l.Send(ctx, m); err != nil {
		l.Free(m)
		return err
	}
	return nil
}

// receiveMarked wants the given microbatch next.
func receiveMarked(ctx context.Context, l Link, microbatch int) error {
	m, err := l.Receive(ctx)
	if err != nil {
		return err
	}
	defer l.Free(m)
	if m.Microbatch != microbatch {
		return errors.New("out of order")
	}
	for _, tensor := range m.Tensors {
		if binary.LittleEndian.Uint32(tensor) != uint32(microbatch) {
			return errors.New("the bytes are of another message")
		}
	}
	return nil
}

// All shapes of links keep order and bytes while both sides run at their own pace.
func TestLinkKeepsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	for range 40 {
		capacity, count := 1+random.IntN(4), random.IntN(200)
		sizes := make([]uint64, 1+random.IntN(3))
		for i := range sizes {
			sizes[i] = uint64(4 + random.IntN(60))
		}
		checkOrder(t, openLink(t, capacity, sizes...), count, random.Uint64())
	}
}

// checkOrder sends count messages with pauses here and there on both sides.
func checkOrder(t *testing.T, l Link, count int, seed uint64) {
	t.Helper()
	run := func(stream uint64, each func(context.Context, Link, int) error) error {
		random := rand.New(rand.NewPCG(seed, stream))
		for i := range count {
			if err := each(t.Context(), l, i); err != nil {
				return err
			}
			if random.IntN(10) == 0 {
				time.Sleep(time.Duration(random.IntN(50)) * time.Microsecond)
			}
		}
		return nil
	}
	sent := make(chan error, 1)
	go func() { sent <- run(1, sendMarked) }()
	require.NoError(t, run(2, receiveMarked))
	require.NoError(t, <-sent)
}

func TestLinkHoldsItsCapacity(t *testing.T) {
	for capacity := 1; capacity <= 3; capacity++ {
		l := openLink(t, capacity, 8)
		for i := range capacity {
			require.NoError(t, sendMarked(t.Context(), l, i), "none is received yet")
		}
		more, err := l.Buffer(t.Context())
		require.NoError(t, err, "the next can be filled meanwhile")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.ErrorIs(t, l.Send(ctx, more), context.DeadlineExceeded, "it is full")
		_, err = l.Buffer(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "all memory is in use")
		cancel()
		require.NoError(t, receiveMarked(t.Context(), l, 0))
		more.Microbatch = capacity
		binary.LittleEndian.PutUint32(more.Tensors[0], uint32(capacity))
		require.NoError(t, l.Send(t.Context(), more), "after the failed send it is the sender's still")
		for i := range capacity {
			require.NoError(t, receiveMarked(t.Context(), l, i+1))
		}
	}
}

// A link without tensors carries order alone.
func TestEmptyLink(t *testing.T) {
	checkOrder(t, openLink(t, 1), 50, 1)
}

func TestLinkWaitsEnd(t *testing.T) {
	waits := map[string]func(context.Context, Link) error{
		"buffer":  func(ctx context.Context, l Link) error { _, err := l.Buffer(ctx); return err },
		"receive": func(ctx context.Context, l Link) error { _, err := l.Receive(ctx); return err },
		"send": func(ctx context.Context, l Link) error {
			m, err := l.Buffer(ctx)
			if err != nil {
				return err
			}
			return l.Send(ctx, m)
		},
	}
	// stuck is a link on which the operation waits.
	stuck := func(t *testing.T, operation string) Link {
		l := openLink(t, 1, 4)
		switch operation {
		case "send":
			require.NoError(t, sendMarked(t.Context(), l, 0))
		case "buffer":
			for range 2 {
				_, err := l.Buffer(t.Context())
				require.NoError(t, err)
			}
		}
		return l
	}
	for operation, wait := range waits {
		t.Run(operation, func(t *testing.T) {
			prefix := "pipeline: link 0 to 1: " + operation + ": "
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			err := wait(ctx, stuck(t, operation))
			require.ErrorIs(t, err, gpu.ErrTimeout)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, prefix+"timed out after ")

			why := errors.New("stage 2 is gone")
			caused, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Millisecond, func() { stop(why) })
			err = wait(caused, stuck(t, operation))
			require.ErrorIs(t, err, why, "the cause, not merely that it was canceled")
			require.NotErrorIs(t, err, gpu.ErrTimeout)

			l := stuck(t, operation)
			time.AfterFunc(time.Millisecond, func() { assert.NoError(t, l.Close()) })
			require.ErrorIs(t, wait(t.Context(), l), ErrLinkClosed)
			for range 20 { // also where it need not wait
				require.ErrorIs(t, wait(t.Context(), l), ErrLinkClosed)
			}
			require.NoError(t, l.Close(), "twice")
		})
	}
}

// What was sent before Close is dropped, so that a stage does not work on for a run that has failed.
func TestClosedLinkDropsMessages(t *testing.T) {
	l := openLink(t, 2, 4)
	require.NoError(t, sendMarked(t.Context(), l, 0))
	require.NoError(t, l.Close())
	for range 20 {
		require.ErrorIs(t, receiveMarked(t.Context(), l, 0), ErrLinkClosed)
	}
}

func TestLinkAllocatesNothing(t *testing.T) {
	l := openLink(t, 2, 1<<10, 16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	microbatch := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := errors.Join(sendMarked(ctx, l, microbatch), receiveMarked(ctx, l, microbatch)); err != nil {
			t.Error(err)
		}
		microbatch++
	}))
}
