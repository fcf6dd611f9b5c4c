package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	. "gputrain/model"
)

// both is a directory with one file of weights, and with two and their index.
func both(t *testing.T, def Definition, single, several []array.Host) (dir string) {
	dir = t.TempDir()
	sharded(t, dir, def, several)
	store(t, def, "model.safetensors", dir, named(single, ""))
	return dir
}

// Of one file of weights and several, which transformers leaves behind of a model that another was saved over, neither
// is taken unless they say the same.
func TestSingleFileBesideAnIndex(t *testing.T) {
	def := smallDefinitions(t)[0]
	old, tuned := Init(def, 1), Init(def, 2)
	at := func(dir string, names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	dir := both(t, def, tuned, tuned)
	_, got, err := ReadHF(dir)
	require.NoError(t, err)
	assert.Equal(t, tuned, got)
	files, err := opened(t, dir).WeightFiles()
	require.NoError(t, err)
	assert.Equal(t, at(dir, "model.safetensors"), files, "each tensor once")

	last := Init(def, 2)
	last[len(last)-1].Data[3]++
	for says, dir := range map[string]string{
		`first in "h.0.attn.c_attn.weight"`:                             both(t, def, tuned, old),
		fmt.Sprintf("first in %q", last[len(last)-1].Path):              both(t, def, tuned, last),
		fmt.Sprintf("only the former has %q", tuned[len(tuned)-1].Path): both(t, def, tuned, tuned[:len(tuned)-1]),
		fmt.Sprintf("only the latter has %q", tuned[0].Path):            both(t, def, tuned[1:], tuned),
	} {
		_, _, err := ReadHF(dir)
		_, named := opened(t, dir).WeightFiles()
		for _, err := range []error{err, named} {
			assert.ErrorContains(t, err, "found model.safetensors, and model.safetensors.index.json with 2 files, which differ ("+says+"), wanted one model: remove")
			assert.ErrorContains(t, err, dir)
		}
	}

	dir = both(t, def, tuned, old)
	require.NoError(t, os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")))
	_, got, err = ReadHF(dir)
	require.NoError(t, err, "an index whose files are gone is a leftover")
	assert.Equal(t, tuned, got)
	files, err = opened(t, dir).WeightFiles()
	require.NoError(t, err)
	assert.Equal(t, at(dir, "model.safetensors"), files)

	where := map[string]string{}
	for _, h := range tuned {
		where[h.Path] = "model.safetensors"
	}
	index(t, dir, where)
	_, got, err = ReadHF(dir)
	require.NoError(t, err, "an index of that very file")
	assert.Equal(t, tuned, got)
}

// Of several things that are wrong with an index the first one by name is told, each time.
func TestRefusedIndexes(t *testing.T) {
	const deep = 1 << 16
	for text, says := range map[string]string{
		`{"weight_map": {"d": "../d", "b": "../b", "a": "../a", "c": "../c", "e": "../e"}}`: `tensor "a": file "../a", want a name in the same directory`,
		`{"weight_map": {"b": 1, "a": 2}}`:                                                  `weight_map: tensor "a": found 2, wanted the name of a file`,
		`{"weight_map": {"a": null}}`:                                                       `tensor "a": file ""`,
		`{"weight_map": {"a": "/etc/passwd"}}`:                                              `file "/etc/passwd", want a name`,
		`{"weight_map": {"a": ".."}}`:                                                       `file "..", want a name`,
		`{"weight_map": {"a": "a/b"}}`:                                                      `file "a/b", want a name`,
		`{"weight_map": null}`:                                                              "weight_map is empty",
		`{"weight_map": {"a": "x\u0000"}}`:                                                  `x\x00": invalid argument`,
		`{"weight_map": {"a": "\u001b]0;x\u0007"}}`:                                         `"\x1b]0;x\a"`,
		`{"weight_map": [1]}`:                                                               "weight_map: found a list, wanted an object",
		`[]`:                                                                                "found a list, wanted an object",
		`{"weight_map": {}}`:                                                                "weight_map is empty",
		"\ufeff{}":                                                                          "begins with a byte-order mark",
		`{"weight_map": ` + string(make([]byte, deep)) + `}`:                                "invalid character",
	} {
		for range 5 {
			dir := t.TempDir()
			write("model.safetensors.index.json", text)(t, dir)
			_, err := opened(t, dir).openWeights()
			require.ErrorContains(t, err, says)
			assert.Less(t, len(err.Error()), 1000)
		}
	}
}
