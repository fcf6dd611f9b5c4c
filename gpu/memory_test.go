package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func TestMemoryLimit(t *testing.T) {
	d := gputest.Device(t, gputest.WithMemoryLimit(1<<20))
	a, err := d.NewBuffer("half", 512<<10)
	require.NoError(t, err)
	_, err = d.NewBuffer("mu/h.0.attn.weight", 600<<10)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	require.EqualError(t, err, `gpu: new buffer: "mu/h.0.attn.weight": out of memory: 614400 bytes wanted, 524288 live, memory limit 1048576`)
	free, bound, known := d.Available()
	require.True(t, known)
	require.Equal(t, uint64(512<<10), free)
	require.Equal(t, "the memory limit", bound)
	a.Release()
	b, err := d.NewBuffer("b", 600<<10)
	require.NoError(t, err)
	b.Release()
	c := d.Counters()
	require.Zero(t, c.LiveBytes)
	require.Zero(t, c.LiveBuffers)
	require.Equal(t, uint64(600<<10), c.PeakBytes)
	require.Equal(t, uint64(2), c.Buffers)
}

// Far more than the machine has comes back as an error and the device works on.
func TestOverallocation(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		_, err := d.NewBuffer("huge", 1<<50)
		var limit *gpu.LimitError
		require.ErrorAs(t, err, &limit)
		require.Equal(t, "BufferBytes", limit.Name)
		if !d.Adapter().Limits.Software || d.Adapter().Backend == "gl" {
			return // a card's memory may be large, and llvmpipe's OpenGL fills what it allocates
		}
		var held []*gpu.Buffer
		for {
			b, err := d.NewBuffer("slab", d.Limits().BufferBytes&^3)
			if err != nil {
				require.ErrorIs(t, err, gpu.ErrOutOfMemory)
				require.ErrorContains(t, err, "slab")
				break
			}
			held = append(held, b)
			require.Less(t, len(held), 4096)
		}
		for _, b := range held {
			b.Release()
		}
		a := storage(t, d, "a", 1, 2, 3)
		require.Equal(t, []float32{1, 2, 3}, read(t, d, a.All()))
	})
}

// Every buffer is in the account: uniforms, rings and the staging buffer of Read.
func TestAccountCountsEverything(t *testing.T) {
	d := gputest.Device(t)
	a, b, out := storage(t, d, "a", ramp(64)...), storage(t, d, "b", ramp(64)...), storage(t, d, "out", ramp(64)...)
	require.Equal(t, uint64(3*256), d.Counters().LiveBytes)
	rec := d.Record("p")
	add(rec, d, out, a, b, 1)
	p, err := rec.Program(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3*256+p.UniformBytes()+d.TexelBytes(), d.Counters().LiveBytes)
	rb, err := d.NewReadback("rb", 100, 3)
	require.NoError(t, err)
	require.Equal(t, 3*256+p.UniformBytes()+d.TexelBytes()+300, d.Counters().LiveBytes)
	rb.Release()
	p.Release()
	require.Equal(t, uint64(3*256), d.Counters().LiveBytes)
	read(t, d, a.All())
	require.Equal(t, uint64(3*256+64<<10), d.Counters().LiveBytes)
	require.Equal(t, uint64(4), d.Counters().LiveBuffers)
}
