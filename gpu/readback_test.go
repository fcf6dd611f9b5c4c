package gpu_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// counting is a program that adds 1 to x[0] and reads it back.
func counting(t testing.TB, d *gpu.Device, depth int) (*gpu.Program, *gpu.Readback) {
	t.Helper()
	x, y, one := storage(t, d, "x", 0, 0), storage(t, d, "y", 0, 0), storage(t, d, "one", 1, 1)
	rb, err := d.NewReadback("count", 8, depth)
	require.NoError(t, err)
	t.Cleanup(rb.Release)
	rec := d.Record("count")
	add(rec, d, y, x, one, 1)
	rec.Copy(x.All(), y.All())
	rec.ReadBack(rb, x.Range(0, 4))
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	t.Cleanup(p.Release)
	return p, rb
}

func TestReadbackInOrder(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		p, rb := counting(t, d, 3)
		next := func(want float32) {
			t.Helper()
			got, err := rb.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, []float32{want}, floats(got))
		}
		require.Zero(t, rb.Pending())
		_, err := rb.Next(t.Context())
		require.ErrorContains(t, err, `gpu: readback "count": nothing outstanding`)
		require.NoError(t, p.Submit(t.Context()))
		require.NoError(t, p.Submit(t.Context()))
		require.NoError(t, p.Submit(t.Context()))
		require.Equal(t, 3, rb.Pending())
		require.ErrorContains(t, p.Submit(t.Context()), "all 3 buffers hold results not yet taken")
		require.ErrorContains(t, d.Submit(t.Context(), p, p), "all 3 buffers")
		require.Equal(t, 3, rb.Pending())
		next(1)
		require.ErrorContains(t, d.Submit(t.Context(), p, p), "all 3 buffers", "two are needed, one is free")
		require.Equal(t, 2, rb.Pending())
		next(2)
		require.NoError(t, d.Submit(t.Context(), p, p))
		for want := range 3 {
			next(float32(3 + want))
		}
		require.Zero(t, rb.Pending())
	})
}

func TestReadbackRelease(t *testing.T) {
	d := gputest.Device(t)
	p, rb := counting(t, d, 2)
	require.NoError(t, p.Submit(t.Context()))
	rb.Release() // with a result on its way
	require.NoError(t, d.Wait(t.Context()))
	require.ErrorContains(t, p.Submit(t.Context()), `readback "count": is released`)
	_, err := d.NewReadback("none", 4, 0)
	require.ErrorContains(t, err, "depth 0")
}

// The binding's own callbacks crash after seconds of this: C keeps the address of a Go local there. With GPUTRAIN_SOAK=1 it
// is 100,000 read-backs.
func TestSoakReadbacks(t *testing.T) {
	rounds := 2000
	if os.Getenv("GPUTRAIN_SOAK") == "1" {
		rounds = 100_000
	}
	d := gputest.Device(t)
	p, rb := counting(t, d, 2)
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	var garbage [][]byte
	before := d.Counters()
	for i := range rounds {
		require.NoError(t, p.Submit(t.Context()))
		if i > 0 {
			got, err := rb.Next(t.Context())
			require.NoError(t, err)
			if want := float32(i); floats(got)[0] != want {
				t.Fatalf("read-back %d: %v, want %v", i, floats(got)[0], want)
			}
		}
		garbage = append(garbage[max(0, len(garbage)-8):], make([]byte, 1<<14))
	}
	_, err := rb.Next(t.Context())
	require.NoError(t, err)
	after := d.Counters()
	require.Equal(t, uint64(rounds), after.Readbacks-before.Readbacks)
	require.Equal(t, before.LiveBytes, after.LiveBytes)
	require.Equal(t, before.Buffers, after.Buffers)
}

func TestNextInto(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		p, rb := counting(t, d, 2)
		require.NoError(t, p.Submit(t.Context()))
		require.NoError(t, p.Submit(t.Context()))
		dst := []byte{9, 9, 9, 9, 9, 9}
		_, err := rb.NextInto(t.Context(), dst[:3])
		require.ErrorContains(t, err, `gpu: readback "count": room for 3 bytes, wanted 4`)
		require.Equal(t, 2, rb.Pending(), "the result stays")
		require.NoError(t, rb.Wait(t.Context()))
		require.NoError(t, rb.Wait(t.Context()))
		require.Equal(t, 2, rb.Pending(), "waited for, not taken")
		n, err := rb.NextInto(t.Context(), dst)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Equal(t, []float32{1}, floats(dst[:4]))
		require.Equal(t, []byte{9, 9}, dst[4:], "beyond the result")
		got, err := rb.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, []float32{2}, floats(got))
		_, err = rb.NextInto(t.Context(), dst)
		require.ErrorContains(t, err, "nothing outstanding")
		require.ErrorContains(t, rb.Wait(t.Context()), `gpu: readback "count": nothing outstanding`)
	})
}

// What a pipeline does for every microbatch must not make garbage.
func TestNextIntoAllocatesNothing(t *testing.T) {
	d := gputest.Device(t)
	p, rb := counting(t, d, 11)
	for range 11 {
		require.NoError(t, p.Submit(t.Context()))
	}
	dst := make([]byte, 4)
	require.Zero(t, testing.AllocsPerRun(10, func() { // once more to warm up
		if _, err := rb.NextInto(t.Context(), dst); err != nil {
			t.Error(err)
		}
	}))
	require.Equal(t, []float32{11}, floats(dst))
}
