package gpu_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// A submit takes commands for as long as it is expected to stay within the limit; what takes longer by itself has a submit of its own.
func TestPlanOfSubmits(t *testing.T) {
	card := gpu.Adapter{Name: "card", Type: "discrete", Limits: gpu.DefaultLimits()}
	d := gpu.DryOf(card, card.Limits)
	speed, measured := d.Speed()
	require.False(t, measured)
	require.Less(t, speed.FLOPS, card.Typical().FLOPS, "cautious")
	b := buffer(t, d, "b", 1024)
	program := func(seconds ...float64) *gpu.Program {
		rec := d.Record("p")
		for _, s := range seconds {
			rec.Group("g")
			rec.Expect(gpu.Work{FLOPs: speed.FLOPS * s})
			rec.Dispatch(gputest.BusyKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, [4]uint32{1}, b.Range(0, 256))
		}
		p, err := rec.Program(t.Context())
		require.NoError(t, err)
		return p
	}
	rounded := func(planned []gpu.Planned) (out []time.Duration) {
		for _, p := range planned {
			out = append(out, p.Takes.Round(10*time.Millisecond))
		}
		return out
	}
	ms := time.Millisecond
	p, q := program(0.2, 0.2, 0.2), program(0.9, 0.1, 0.3)
	require.Equal(t, []time.Duration{400 * ms, 200 * ms, 900 * ms, 400 * ms}, rounded(d.Plan(p, q)))
	require.Equal(t, []time.Duration{400 * ms, 400 * ms, 400 * ms}, rounded(d.Plan(p, p)), "programs share a submit")
	planned := d.Plan(p, q)
	require.Equal(t, gputest.BusyKernel.Label, planned[2].Longest)
	require.Equal(t, 900*ms, planned[2].LongestTakes.Round(10*ms))
	require.Equal(t, 2, planned[3].Dispatches)

	// What is told holds for one dispatch; the others move what they bind, with operations by the byte.
	rec := d.Record("bytes")
	rec.Expect(gpu.Work{FLOPs: speed.FLOPS})
	rec.Dispatch(gputest.BusyKernel, gpu.Grid{}, [4]uint32{1}, b.Range(0, 256)) // nothing to do
	rec.Intensity(1e9)
	rec.Dispatch(gputest.BusyKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, [4]uint32{1}, b.Range(0, 256))
	moves, err := rec.Program(t.Context())
	require.NoError(t, err)
	require.InEpsilon(t, 256e9/speed.FLOPS, d.Plan(moves)[0].Takes.Seconds(), 1e-3)

	// A measurement takes the place of what is typical, and only a better one its.
	expected := p.Dispatches()
	require.Equal(t, 3, expected)
	for _, c := range []struct{ took, want time.Duration }{{1200 * ms, 1200 * ms}, {3000 * ms, 1200 * ms}, {300 * ms, 300 * ms}} {
		d.Measured(c.took, p)
		sum := time.Duration(0)
		for _, s := range d.Plan(p) {
			sum += s.Takes
		}
		require.Equal(t, c.want, sum.Round(ms))
	}
	require.Len(t, d.Plan(p), 1)

	// Waits last for what the work is expected to take, 20 times over, plus the time-out.
	require.Equal(t, 5*time.Minute+20*300*ms, d.WaitLimit(p).Round(10*ms))
	require.Equal(t, 5*time.Minute, d.WaitLimit())
}

// limited opens devices whose submits are cut by a limit.
func limited(limit time.Duration) gputest.Option {
	return func(o *gpu.Options) { o.SubmitLimit = limit }
}

// Cut at every command: the same bits, as many submits as commands, nothing made; read-backs arrive, texels are refreshed as in one submit.
func TestCutSubmitsHaveTheBitsOfOne(t *testing.T) {
	for _, use := range []gpu.TexelUse{gpu.TexelsOff, gpu.TexelsForce} {
		t.Run(use.String(), func(t *testing.T) {
			type result struct {
				first, second, x []float32
				work             gpu.Counters
			}
			run := func(limit time.Duration) (r result) {
				d := gputest.Device(t, limited(limit), func(o *gpu.Options) {
					if gputest.Adapters(t)[0].Limits.TexelBindings > 0 {
						o.Texels = use
					}
				})
				const n = 256
				x, y, w := storage(t, d, "x", ramp(n)...), storage(t, d, "y", make([]float32, n)...), storage(t, d, "w", ramp(n)...)
				rb, err := d.NewReadback("rb", 16, 2)
				require.NoError(t, err)
				t.Cleanup(rb.Release)
				rec := d.Record("step")
				add(rec, d, y, x, w, 2)
				rec.ReadBack(rb, y.Range(32, 16))
				rec.Group("copies")
				rec.Copy(x.All(), y.All())
				rec.Zero(w.Range(0, 64))
				add(rec, d, y, x, w, 3)
				add(rec, d, x, y, w, 1)
				rec.ReadBack(rb, x.Range(64, 16))
				p, err := rec.Program(t.Context())
				require.NoError(t, err)
				empty, err := d.Record("empty").Program(t.Context())
				require.NoError(t, err)
				require.NoError(t, d.Wait(t.Context()))
				before := d.Counters()
				require.NoError(t, d.Submit(t.Context(), p, empty))
				for _, to := range []*[]float32{&r.first, &r.second} {
					got, err := rb.Next(t.Context())
					require.NoError(t, err)
					*to = floats(got)
				}
				require.NoError(t, d.Wait(t.Context()))
				after := d.Counters()
				require.Equal(t, []uint64{before.Pipelines, before.BindGroups, before.Buffers, before.LiveBytes}, []uint64{after.Pipelines, after.BindGroups, after.Buffers, after.LiveBytes})
				r.work = gpu.Counters{
					Dispatches: after.Dispatches - before.Dispatches, Submits: after.Submits - before.Submits,
					Refreshes: after.Refreshes - before.Refreshes, RefreshedBytes: after.RefreshedBytes - before.RefreshedBytes,
				}
				require.Len(t, d.Plan(p, empty), int(r.work.Submits))
				r.x = read(t, d, x.All())
				return r
			}
			whole, cut := run(-1), run(1)
			require.EqualValues(t, 1, whole.work.Submits)
			require.EqualValues(t, 7+cut.work.Refreshes, cut.work.Submits)
			cut.work.Submits = 1
			require.Equal(t, whole, cut)
			require.Equal(t, []float32{24, 27, 30, 33}, whole.first)
		})
	}
}

// A pass belongs to its group in whichever submit it is.
func TestProfileOfCutSubmits(t *testing.T) {
	d := gputest.Device(t, gputest.WithProfile(), limited(1))
	if !d.Adapter().Timestamps {
		t.Skip("skipped, needs an adapter with timestamps")
	}
	a, b, out := storage(t, d, "a", ramp(64)...), storage(t, d, "b", ramp(64)...), storage(t, d, "out", ramp(64)...)
	rec := d.Record("step")
	for _, group := range []string{"", "one", "two"} {
		if group != "" {
			rec.Group(group)
		}
		add(rec, d, out, a, b, 1)
		add(rec, d, out, a, b, 2)
	}
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	require.NoError(t, d.Submit(t.Context(), p, p))
	require.NoError(t, d.Wait(t.Context()))
	var names []string
	for _, s := range d.Profile() {
		require.Equal(t, "step", s.Label)
		names = append(names, "<"+s.Group+">")
	}
	require.Equal(t, strings.Repeat("<><><one><one><two><two>", 2), strings.Join(names, ""))
}

// A wait lasts as long as the work under way can be expected to take, however short the time-out.
func TestWaitsLastForTheWorkUnderWay(t *testing.T) {
	d := gputest.Device(t, gputest.WithTimeout(time.Millisecond), limited(-1))
	gputest.Asynchronous(t, d)
	out, err := d.NewBuffer("out", 256)
	require.NoError(t, err)
	speed, _ := d.Speed()
	rec := d.Record("long")
	rec.Expect(gpu.Work{FLOPs: speed.FLOPS * gputest.Patience.Seconds()})
	rec.Dispatch(gputest.BusyKernel, gpu.Grid{X: 512, Y: 1, Z: 1}, [4]uint32{1 << 13}, out.All())
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, p.Submit(t.Context()))
	require.NoError(t, d.Wait(t.Context()))
	require.Greater(t, time.Since(begin), time.Millisecond)
	require.Equal(t, time.Millisecond, d.WaitLimit(), "nothing is under way")
}

// A barrier lies before a command that uses a buffer otherwise than the one before did, or that writes it again, whichever ranges of it.
func TestBarriersOfSubmits(t *testing.T) {
	d := gpu.Dry(gpu.DefaultLimits())
	a, b, c := buffer(t, d, "a", 1024), buffer(t, d, "b", 1024), buffer(t, d, "c", 1024)
	rec := d.Record("p")
	want := 0
	add := func(x, y, out *gpu.Buffer, half uint64, waits int) {
		rec.Dispatch(addKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, addParams(1, 1), x.Range(0, 256), y.Range(512*half, 256), out.Range(512*half, 256))
		want += waits
	}
	add(a, a, b, 0, 0)
	add(a, a, c, 0, 0) // reads what was read
	add(a, a, b, 1, 1) // writes again
	add(b, a, c, 0, 1) // reads what was written, and writes
	add(b, b, a, 0, 1) // writes what was read
	rec.Copy(b.Range(0, 256), c.Range(0, 256))
	rec.Copy(b.Range(256, 256), c.Range(0, 256))
	rec.Zero(a.Range(0, 256))
	want += 3
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	planned := d.Plan(p)
	require.Len(t, planned, 1)
	require.Equal(t, want, planned[0].Barriers)
}
