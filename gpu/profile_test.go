package gpu_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestProfile(t *testing.T) {
	d := gputest.Device(t, gputest.WithProfile())
	if !d.Adapter().Timestamps {
		t.Skip("skipped, needs an adapter with timestamps")
	}
	a, b, out := storage(t, d, "a", ramp(4096)...), storage(t, d, "b", ramp(4096)...), storage(t, d, "out", ramp(4096)...)
	sink := storage(t, d, "sink", make([]float32, 64)...)
	rec := d.Record("step")
	add(rec, d, out, a, b, 1) // before any group
	rec.Group("forward")
	add(rec, d, out, a, b, 1)
	add(rec, d, out, a, b, 2)
	rec.Copy(a.All(), out.All())
	add(rec, d, out, a, b, 3)
	rec.Group("heavy")
	rec.Dispatch(gputest.BusyKernel, gpu.Grid{X: 32, Y: 1, Z: 1}, [4]uint32{255 << 8}, sink.All())
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	defer p.Release()
	start := time.Now()
	require.NoError(t, d.Submit(t.Context(), p, p))
	require.NoError(t, p.Submit(t.Context()))
	require.NoError(t, d.Wait(t.Context()))
	took := time.Since(start)
	spans := d.Profile()
	var names []string
	total := map[string]time.Duration{}
	for i, s := range spans {
		names = append(names, s.Group)
		require.Equal(t, "step", s.Label)
		require.GreaterOrEqual(t, s.End, s.Begin)
		require.LessOrEqual(t, s.End-s.Begin, took)
		if i > 0 {
			require.GreaterOrEqual(t, s.Begin, spans[i-1].Begin)
		}
		total[s.Group] += s.End - s.Begin
	}
	// Each run: one pass before the groups, forward cut in two by its copy, heavy.
	require.Equal(t, strings.Repeat(" forward forward heavy", 3), " "+strings.Join(strings.Fields(strings.Join(names, " ")), " "))
	require.Len(t, names, 12)
	require.Greater(t, total["heavy"], total["forward"])
	require.Empty(t, d.Profile(), "taken once")
	require.Empty(t, gputest.Device(t).Profile(), "nobody asked")
}

// Without timestamps (OpenGL) a profile is empty, not an error.
func TestProfileEverywhere(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		p, rb := counting(t, d, 1)
		require.NoError(t, p.Submit(t.Context()))
		_, err := rb.Next(t.Context())
		require.NoError(t, err)
		require.NoError(t, d.Wait(t.Context()))
		require.Equal(t, d.Adapter().Timestamps, len(d.Profile()) > 0)
	}, gputest.WithProfile())
}

// By the host's clock a pass lies between its submit and the end of a wait for it, though every second one waits behind another.
func TestProfileOrigin(t *testing.T) {
	d := gputest.Device(t, gputest.WithProfile())
	if !d.Adapter().Timestamps {
		t.Skip("skipped, needs an adapter with timestamps")
	}
	require.Zero(t, d.ProfileOrigin(), "nothing ran")
	p := gputest.Busy(t, d)
	d.Profile()
	var submitted, done []time.Time
	for range 2 {
		submitted = append(submitted, time.Now())
		require.NoError(t, p.Submit(t.Context()))
		require.NoError(t, p.Submit(t.Context()))
		require.NoError(t, d.Wait(t.Context()))
		done = append(done, time.Now())
	}
	spans, origin := d.Profile(), d.ProfileOrigin()
	require.Len(t, spans, 4)
	// The two clocks are compared when work has been noticed to be done, which is late where the machine has other work.
	slack := (spans[0].End - spans[0].Begin) / 2
	for i, s := range spans {
		require.WithinRange(t, origin.Add(s.Begin), submitted[i/2].Add(-slack), done[i/2].Add(slack))
		require.WithinRange(t, origin.Add(s.End), submitted[i/2].Add(-slack), done[i/2].Add(slack))
	}
	require.Zero(t, gputest.Device(t).ProfileOrigin(), "nobody asked")
}
