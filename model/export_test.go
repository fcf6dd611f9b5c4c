package model

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nothing is left where a model cannot be exported, folders that it made for its own included, it is said why once, and nothing is written over.
func TestExportIsWholeOrNotThere(t *testing.T) {
	def := byteGPT(t)
	hosts := Init(def, 1)
	root := t.TempDir()
	dir := filepath.Join(root, "a", "model")
	require.Error(t, writeHF(dir, def, hosts[:len(hosts)-1], "F32"))
	assert.Empty(t, namesIn(t, root))
	err := writeHF(filepath.Join(put(t, "", root, "file"), "model"), def, hosts, "F32")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "\n")
	assert.Equal(t, []string{"file"}, namesIn(t, root))
	require.NoError(t, os.MkdirAll(dir, 0o777))
	require.NoError(t, writeHF(dir, def, hosts, "F32"), "an empty directory will do")
	require.ErrorContains(t, writeHF(dir, def, hosts, "F32"), "found 2 files there, wanted a new or empty directory")
	stored, err := openWeights(dir, def)
	require.NoError(t, err)
	_, err = stored.Read("no.such")
	require.ErrorContains(t, err, `"no.such" is no parameter`)
}

// What a type makes an infinity of is refused, and the largest numbers that it holds are not: half a step above these rounds to
// the next, which is none.
func TestExportKeepsFiniteNumbersFinite(t *testing.T) {
	for dtype, numbers := range map[string][2]float32{"BF16": {0x1.fefffep127, 0x1.ffp127}, "F16": {65519, 65520}} {
		for _, sign := range []float32{1, -1} {
			assert.NoError(t, WriteFloats(io.Discard, dtype, []float32{sign * numbers[0], float32(math.Inf(int(sign)))}))
			assert.ErrorContains(t, WriteFloats(io.Discard, dtype, []float32{0, sign * numbers[1]}), "does not fit "+dtype+": export as ")
		}
	}
}

// Adapters are merged to finite numbers, or not at all: W + B A is 3e38 + 1 x 1e38, and the length of a row of zeros divides DoRA's.
func TestMergeKeepsFiniteNumbersFinite(t *testing.T) {
	a := adapter{module: "m", in: 2, out: 2, rank: 1, scale: 1}
	read := func(path string) ([]float32, error) {
		return map[string][]float32{a.a(): {0, 1e38}, a.b(): {1, 0}, a.magnitude(): {1, 1}}[path], nil
	}
	assert.NoError(t, a.merge([]float32{1, 2e38, 3, 4}, false, read))
	assert.NoError(t, a.merge([]float32{float32(math.NaN()), 3, 3, 4}, false, read), "which its reader tells")
	assert.ErrorContains(t, a.merge([]float32{1, 3e38, 3, 4}, false, read), "found 1 of 4 numbers")
	assert.ErrorContains(t, a.merge([]float32{1, 2, 0, 0}, true, read), "found 2 of 4 numbers")
}
