package gpu_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestWaitsEnd(t *testing.T) {
	d := gputest.Device(t, gputest.WithTimeout(time.Millisecond))
	gputest.Asynchronous(t, d)
	p := gputest.Busy(t, d)
	before := d.Counters().Dispatches
	start := time.Now()
	const runs = 10 // so that the wait begins before the work is done, whatever else the machine does
	require.NoError(t, d.Submit(t.Context(), slices.Repeat([]*gpu.Program{p}, runs)...))
	require.ErrorIs(t, d.Wait(t.Context()), gpu.ErrTimeout)
	for errors.Is(d.Wait(t.Context()), gpu.ErrTimeout) {
		require.Less(t, time.Since(start), gputest.Patience)
	}
	require.NoError(t, d.Wait(t.Context()), "the device works on after a time-out")
	require.Equal(t, before+runs, d.Counters().Dispatches)
	require.NoError(t, p.Submit(t.Context())) // and is released with work under way
}

func TestContextEndsWaits(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		p := gputest.Busy(t, d)
		require.NoError(t, d.Wait(t.Context()))
		a := storage(t, d, "a", 7)
		require.NoError(t, p.Submit(t.Context()))
		require.NoError(t, p.Submit(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		<-ctx.Done()
		// The driver may already be done where it runs work in the submit itself (OpenGL).
		if err := d.Read(ctx, make([]byte, 4), a.All()); err != nil {
			require.ErrorIs(t, err, gpu.ErrTimeout)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		canceled, stop := context.WithCancel(t.Context())
		stop()
		if err := d.Wait(canceled); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, gpu.ErrTimeout)
		}
		require.Equal(t, []float32{7}, read(t, d, a.All()))
	})
}

func TestLostDevice(t *testing.T) {
	d := gputest.Device(t)
	p, rb := counting(t, d, 3)
	a := storage(t, d, "a", 1)
	require.NoError(t, p.Submit(t.Context()))
	d.Lose("pulled out")
	_, errBuffer := d.NewBuffer("b", 4)
	_, errNext := rb.Next(t.Context())
	_, errProgram := d.Record("r").Program(t.Context())
	for name, err := range map[string]error{
		"new buffer": errBuffer, "next": errNext, "program": errProgram, "submit": p.Submit(t.Context()),
		"write": d.Write(a.All(), raw(1)), "read": d.Read(t.Context(), make([]byte, 4), a.All()),
		"wait": d.Wait(t.Context()), "compile": d.Compile(t.Context(), variants(1), nil), "err": d.Err(),
	} {
		require.ErrorIs(t, err, gpu.ErrDeviceLost, name)
		require.ErrorContains(t, err, "pulled out", name)
	}
	// Another device of the same adapter is not harmed.
	other := gputest.Device(t)
	q, ring := counting(t, other, 1)
	require.NoError(t, q.Submit(t.Context()))
	_, err := ring.Next(t.Context())
	require.NoError(t, err)
}

// A wait under way ends when the device is lost meanwhile.
func TestLostWhileWaiting(t *testing.T) {
	d := gputest.Device(t)
	gputest.Asynchronous(t, d)
	p := gputest.Busy(t, d)
	time.AfterFunc(2*time.Millisecond, func() { d.Lose("pulled out") })
	var err error
	for err == nil { // however late the clock of a busy machine is
		if err = d.Submit(t.Context(), slices.Repeat([]*gpu.Program{p}, 10)...); err == nil {
			err = d.Wait(t.Context())
		}
	}
	require.ErrorIs(t, err, gpu.ErrDeviceLost)
}
