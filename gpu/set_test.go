package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// The buffers of a set are counted and released together, and hold what they are filled with.
func TestSet(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		live := d.Counters().LiveBytes
		s := d.NewSet("test")
		require.Same(t, d, s.Device())
		filled, zeros, uniform := s.Filled("filled", []uint32{1, 2, 3}), s.Zeros("zeros", 8), s.Uniform("uniform", 16)
		require.NoError(t, s.Err())
		require.Equal(t, uint64(12+8+16), s.Bytes())
		require.Equal(t, live+s.Bytes(), d.Counters().LiveBytes)
		raw := make([]byte, 12)
		require.NoError(t, d.Read(t.Context(), raw, filled.All()))
		require.Equal(t, gpu.Bytes([]uint32{1, 2, 3}), raw)
		require.Equal(t, "test.zeros[0:8]", zeros.All().String())
		require.NoError(t, d.Write(uniform.All(), make([]byte, 16)))
		made := s.Bytes()
		live = d.Counters().LiveBytes // with the staging of the read
		s.Release()
		require.Equal(t, live-made, d.Counters().LiveBytes)
		require.Zero(t, s.Bytes())
	})
}

// After the first error a set makes nothing, and says that error.
func TestSetKeepsItsFirstError(t *testing.T) {
	d := gpu.Dry(gpu.Limits{BindingBytes: 16, BufferBytes: 1 << 20})
	s := d.NewSet("test")
	require.NotNil(t, s.Zeros("small", 16))
	require.Nil(t, s.Filled("large", make([]uint32, 5)))
	require.Nil(t, s.Zeros("next", 4))
	require.Nil(t, s.Zeros("larger", 1<<10))
	require.ErrorContains(t, s.Err(), `"test.large": 20 bytes, limit BindingBytes 16`)
	s.Release()
	(*gpu.Set)(nil).Release()
}
