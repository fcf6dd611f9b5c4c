package gpu_test

import (
	"bytes"
	"encoding/json"
	"errors"
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

var someSpans = []gpu.Span{
	{Label: "step", Group: "forward", Operation: "products", Begin: 1000 * time.Microsecond, End: 3000 * time.Microsecond},
	{Label: "step", Group: "update", Begin: 3000 * time.Microsecond, End: 3500 * time.Microsecond},
	{Label: "step", Group: "forward", Begin: 4000 * time.Microsecond, End: 5000 * time.Microsecond},
	{Label: "sample", Begin: 6000 * time.Microsecond, End: 6500 * time.Microsecond},
	{Label: "sample", Group: "head", Operation: "products", Begin: 7000 * time.Microsecond, End: 7500 * time.Microsecond},
}

func TestProfileTable(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, gpu.ProfileTable(&out, someSpans))
	require.Equal(t, strings.TrimLeft(`
operation    passes    total ms   share     mean us    worst us
products          2       2.500   55.6%      1250.0      2000.0
forward           1       1.000   22.2%      1000.0      1000.0
sample            1       0.500   11.1%       500.0       500.0
update            1       0.500   11.1%       500.0       500.0
all               5       4.500

group      passes    total ms   share     mean us    worst us
forward         2       3.000   66.7%      1500.0      2000.0
head            1       0.500   11.1%       500.0       500.0
sample          1       0.500   11.1%       500.0       500.0
update          1       0.500   11.1%       500.0       500.0
all             5       4.500
`, "\n"), out.String())
	require.NoError(t, gpu.ProfileTable(&out, nil))
	require.ErrorIs(t, gpu.ProfileTable(brokenWriter{}, someSpans), errBroken)
}

func TestWriteTrace(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, gpu.WriteTrace(&out, someSpans))
	var trace struct {
		Events []struct {
			Name, Ph string
			Ts, Dur  float64
			Pid, Tid int
			Args     struct{ Operation string }
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &trace))
	require.Len(t, trace.Events, 6)
	require.Equal(t, "M", trace.Events[0].Ph)
	forward := trace.Events[1]
	require.Equal(t, "forward", forward.Name)
	require.Equal(t, "X", forward.Ph)
	require.Equal(t, "products", forward.Args.Operation)
	require.Zero(t, forward.Ts)
	require.InDelta(t, 2000, forward.Dur, 1e-9)
	require.Equal(t, "sample", trace.Events[4].Name)
	require.InDelta(t, 5000, trace.Events[4].Ts, 1e-9)
	require.ErrorIs(t, gpu.WriteTrace(brokenWriter{}, someSpans), errBroken)
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

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
