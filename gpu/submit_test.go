package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// storage makes a buffer with values in it, released when the test ends.
func storage(t testing.TB, d *gpu.Device, label string, values ...float32) *gpu.Buffer {
	t.Helper()
	b, err := d.NewBuffer(label, uint64(4*len(values)))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	require.NoError(t, d.Write(b.All(), raw(values...)))
	return b
}

func read(t testing.TB, d *gpu.Device, r gpu.Range) []float32 {
	t.Helper()
	got := make([]byte, r.Bytes)
	require.NoError(t, d.Read(t.Context(), got, r))
	return floats(got)
}

func add(rec *gpu.Recording, d *gpu.Device, out, a, b *gpu.Buffer, scale float32) {
	n := int(out.Bytes() / 4)
	rec.Dispatch(addKernel, gpu.Linear(uint64(n), 64, d.Limits()), addParams(n, scale), a.All(), b.All(), out.All())
}

func TestDispatch(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		for _, n := range []int{1, 63, 64, 65, 1000} {
			a, b := storage(t, d, "a", ramp(n)...), storage(t, d, "b", ramp(n)...)
			out := storage(t, d, "out", make([]float32, n)...)
			rec := d.Record("add")
			add(rec, d, out, a, b, 2)
			require.NoError(t, rec.Submit(t.Context()))
			for i, v := range read(t, d, out.All()) {
				require.Equal(t, float32(3*i), v, "element %d of %d", i, n)
			}
		}
	})
}

// A grid above Workgroups is folded, and still covers each element once.
func TestFoldedGrid(t *testing.T) {
	d := gputest.Device(t, gputest.WithLimits(gpu.Limits{Workgroups: 7}))
	const n = 64*30 + 5
	a, b := storage(t, d, "a", ramp(n)...), storage(t, d, "b", make([]float32, n)...)
	out := storage(t, d, "out", make([]float32, n)...)
	require.Equal(t, gpu.Grid{X: 7, Y: 5, Z: 1}, gpu.Linear(n, 64, d.Limits()))
	rec := d.Record("folded")
	add(rec, d, out, a, b, 1)
	require.NoError(t, rec.Submit(t.Context()))
	require.Equal(t, ramp(n), read(t, d, out.All()))
}

// Dispatches see what those before them wrote, across passes and copies too.
func TestOrder(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		const n = 5000
		one, zero := make([]float32, n), make([]float32, n)
		for i := range one {
			one[i] = 1
		}
		x, y, w := storage(t, d, "x", zero...), storage(t, d, "y", zero...), storage(t, d, "w", one...)
		rec := d.Record("chain")
		for range 10 {
			add(rec, d, y, x, w, 1) // y = x + 1
			rec.Copy(x.All(), y.All())
			add(rec, d, y, x, w, 1)
			add(rec, d, x, y, w, 1)
		}
		rec.Zero(x.Range(4, 8))
		p, err := rec.Program(t.Context())
		require.NoError(t, err)
		defer p.Release()
		require.NoError(t, d.Submit(t.Context(), p, p))
		require.NoError(t, d.Write(w.Range(0, 4), raw(100)))
		require.NoError(t, p.Submit(t.Context()))
		got := read(t, d, x.All())
		require.Equal(t, float32(60+30*100), got[0], "a write comes before the next submit and after the last")
		require.Equal(t, []float32{0, 0}, got[1:3])
		for i, v := range got[3:] {
			require.Equal(t, float32(90), v, "element %d", i)
		}
	})
}

// Submitting a program again creates nothing.
func TestResubmitCreatesNothing(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		const n = 256
		a, b, out := storage(t, d, "a", ramp(n)...), storage(t, d, "b", ramp(n)...), storage(t, d, "out", ramp(n)...)
		rb, err := d.NewReadback("rb", 8, 2)
		require.NoError(t, err)
		defer rb.Release()
		rec := d.Record("step")
		for range 5 {
			add(rec, d, out, a, b, 3)
		}
		rec.ReadBack(rb, out.Range(8, 8))
		p, err := rec.Program(t.Context())
		require.NoError(t, err)
		defer p.Release()
		require.NoError(t, p.Submit(t.Context()))
		_, err = rb.Next(t.Context())
		require.NoError(t, err)
		before := d.Counters()
		require.Equal(t, uint64(1), before.Pipelines)
		require.Equal(t, uint64(1), before.BindGroups, "five equal dispatches share one")
		for range 20 {
			require.NoError(t, p.Submit(t.Context()))
			got, err := rb.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, []float32{8, 12}, floats(got))
		}
		after := d.Counters()
		require.Equal(t, before.Pipelines, after.Pipelines)
		require.Equal(t, before.BindGroups, after.BindGroups)
		require.Equal(t, before.Buffers, after.Buffers)
		require.Equal(t, before.LiveBytes, after.LiveBytes)
		require.Equal(t, before.WrittenBytes, after.WrittenBytes)
		require.Equal(t, before.Dispatches+100, after.Dispatches)
		require.Equal(t, before.Submits+20, after.Submits)
		require.Equal(t, before.Readbacks+20, after.Readbacks)
		require.Equal(t, before.ReadBytes+160, after.ReadBytes)
	})
}

// A uniform of the caller's changes between submits of one program.
func TestOwnUniform(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		a, b, out := storage(t, d, "a", ramp(8)...), storage(t, d, "b", ramp(8)...), storage(t, d, "out", ramp(8)...)
		u, err := d.NewUniform("scalars", 8)
		require.NoError(t, err)
		defer u.Release()
		rec := d.Record("own")
		rec.Dispatch(addKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, nil, u.All(), a.All(), b.All(), out.All())
		p, err := rec.Program(t.Context())
		require.NoError(t, err)
		defer p.Release()
		for scale := range 3 {
			require.NoError(t, d.Write(u.Range(0, 8), gpu.Bytes(addParams(8, float32(scale)))))
			require.NoError(t, p.Submit(t.Context()))
			require.Equal(t, float32(7+7*scale), read(t, d, out.All())[7])
		}
	})
}

// What a program used may be released right after the submit: the work is done all the same.
func TestReleaseAfterSubmit(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		const n = 20000
		out := storage(t, d, "out", make([]float32, n)...)
		for round := range 30 {
			a, err := d.NewBuffer("a", 4*n)
			require.NoError(t, err)
			b, err := d.NewBuffer("b", 4*n)
			require.NoError(t, err)
			unused, err := d.NewBuffer("unused", 4*n)
			require.NoError(t, err)
			require.NoError(t, d.Write(unused.All(), raw(ramp(n)...)))
			unused.Release() // with a write not yet submitted
			require.NoError(t, d.Write(a.All(), raw(ramp(n)...)))
			require.NoError(t, d.Write(b.All(), raw(ramp(n)...)))
			rec := d.Record("one-off")
			add(rec, d, out, a, b, float32(round))
			require.NoError(t, rec.Submit(t.Context()))
			a.Release()
			b.Release()
			got := read(t, d, out.Range(4*(n-1), 4))
			require.Equal(t, float32(n-1)*float32(1+round), got[0])
		}
	})
}

func TestSubmitRefusesWhatWasReleased(t *testing.T) {
	d := gputest.Device(t)
	a, b, out := storage(t, d, "a", ramp(8)...), storage(t, d, "b", ramp(8)...), storage(t, d, "out", ramp(8)...)
	rec := d.Record("late")
	add(rec, d, out, a, b, 1)
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.Submit(t.Context()))
	b.Release()
	require.ErrorContains(t, p.Submit(t.Context()), `gpu: submit "late": program "late": buffer "b" is released`)
	p.Release()
	p.Release()
	require.ErrorContains(t, p.Submit(t.Context()), `program "late": is released`)
	require.NoError(t, d.Submit(t.Context()))
	other := gputest.Device(t)
	require.ErrorContains(t, other.Submit(t.Context(), p), "belongs to another device")
	d.Release()
	require.ErrorContains(t, p.Submit(t.Context()), "the device is released")
	_, err = d.NewBuffer("late", 4)
	require.ErrorContains(t, err, "the device is released")
}

func TestCopyAndOffsets(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		a, b := storage(t, d, "a", ramp(16)...), storage(t, d, "b", make([]float32, 16)...)
		rec := d.Record("copy")
		rec.Copy(b.Range(8, 12), a.Range(20, 12))
		require.NoError(t, rec.Submit(t.Context()))
		require.Equal(t, []float32{0, 0, 5, 6, 7, 0}, read(t, d, b.Range(0, 24)))
		require.NoError(t, d.Write(b.Range(4, 4), raw(42)))
		require.Equal(t, []float32{42, 5}, read(t, d, b.Range(4, 8)))
		require.ErrorContains(t, d.Read(t.Context(), make([]byte, 8), b.Range(0, 4)), "destination has 8 bytes")
		require.ErrorContains(t, d.Read(t.Context(), make([]byte, 8), b.Range(60, 8)), "ends past")
	})
}

// Transfers larger than the pieces they go in.
func TestLargeTransfer(t *testing.T) {
	d := gputest.Device(t)
	const n = 9<<20 + 5 // 36 MiB and a bit
	b, err := d.NewBuffer("large", 4*n)
	require.NoError(t, err)
	defer b.Release()
	data := make([]byte, 4*n)
	for i := 0; i < len(data); i += 4093 {
		data[i] = byte(i >> 4)
	}
	require.NoError(t, d.Write(b.All(), data))
	got := make([]byte, 4*n)
	require.NoError(t, d.Read(t.Context(), got, b.All()))
	require.True(t, string(data) == string(got))
}

func TestNewBuffersAreZero(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		for range 3 {
			b, err := d.NewBuffer("b", 4096)
			require.NoError(t, err)
			require.Equal(t, make([]float32, 1024), read(t, d, b.All()))
			require.NoError(t, d.Write(b.Range(0, 16), raw(1, 2, 3, 4)))
			require.NoError(t, d.Wait(t.Context()))
			b.Release()
		}
	})
}
