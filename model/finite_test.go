package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFinite(t *testing.T) {
	good := []float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -1, 0x1p-126, 3, 1, 2, 4}
	require.Zero(t, notFinite(nil))
	require.Zero(t, notFinite(good))
	for _, bad := range []uint32{0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fc00000, 0x7fffffff} {
		for i := range good {
			part := append([]float32(nil), good...)
			part[i] = math.Float32frombits(bad)
			require.Equal(t, 1, notFinite(part), "%08x at %d", bad, i)
		}
	}
}

// Weights that are not finite are named with how many there are, and read only where that is allowed.
func TestWeightsThatAreNotFinite(t *testing.T) {
	def := smallDefinitions(t)[0]
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, dtype := range []string{"F32", "BF16", "F16"} {
		hosts := Init(def, 9)
		first, last := hosts[2], hosts[len(hosts)-1]
		first.Data[1], first.Data[5] = nan, inf
		last.Data[len(last.Data)-1] = nan
		dir := t.TempDir()
		require.NoError(t, writeHF(dir, def, hosts, dtype))
		_, _, err := readHF(dir)
		var bad *NotFiniteError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, NotFiniteError{Tensor: first.Path, Directory: dir, Count: 2, Of: first.Elements()}, *bad)

		s, err := openWeights(dir, def)
		require.NoError(t, err)
		s.AllowNotFinite()
		require.Empty(t, s.NotFinite(), "nothing has been read")
		all, _ := s.Params(0)
		for _, h := range all {
			part := make([]float32, 1)
			for i := range h.Elements() { // part by part, as they are uploaded
				require.NoError(t, h.Copy(part, i))
			}
		}
		counts := map[string]int{}
		for _, e := range s.NotFinite() {
			counts[e.Tensor] = e.Count
		}
		assert.Equal(t, map[string]int{first.Path: 2, last.Path: 1}, counts)
	}
}
