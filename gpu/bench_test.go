package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// A step of many small dispatches: encoding, submitting and running it.
func BenchmarkSubmit1000(b *testing.B) {
	d := gputest.Device(b)
	x, y, z := storage(b, d, "x", ramp(64)...), storage(b, d, "y", ramp(64)...), storage(b, d, "z", ramp(64)...)
	rec := d.Record("many")
	for range 1000 {
		add(rec, d, z, x, y, 1)
	}
	p, err := rec.Program(b.Context())
	require.NoError(b, err)
	b.Cleanup(p.Release)
	b.Logf("adapter %s", d.Adapter())
	for b.Loop() {
		require.NoError(b, p.Submit(b.Context()))
		require.NoError(b, d.Wait(b.Context()))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "us/dispatch")
}

// Making a program of many dispatches, pipelines already there.
func BenchmarkProgram1000(b *testing.B) {
	d := gputest.Device(b)
	x, z := storage(b, d, "x", ramp(64)...), storage(b, d, "z", ramp(64)...)
	y := storage(b, d, "y", make([]float32, 64*1000)...)
	for b.Loop() {
		rec := d.Record("many")
		for i := range 1000 {
			rec.Dispatch(addKernel, gpu.Grid{X: 1, Y: 1, Z: 1}, addParams(64, float32(i)), x.All(), y.Range(uint64(256*i), 256), z.All())
		}
		p, err := rec.Program(b.Context())
		require.NoError(b, err)
		p.Release()
	}
}

func BenchmarkReadSmall(b *testing.B) {
	d := gputest.Device(b)
	x := storage(b, d, "x", 1, 2, 3, 4)
	got := make([]byte, 16)
	for b.Loop() {
		require.NoError(b, d.Read(b.Context(), got, x.All()))
	}
}

func BenchmarkTransfer(b *testing.B) {
	const size = 64 << 20
	d := gputest.Device(b)
	x, err := d.NewBuffer("x", size)
	require.NoError(b, err)
	data := make([]byte, size)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			require.NoError(b, d.Write(x.All(), data))
			require.NoError(b, d.Wait(b.Context()))
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			require.NoError(b, d.Read(b.Context(), data, x.All()))
		}
	})
}
