package hub

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	. "gputrain/model"
)

// opened is what lies at a path, until the test ends.
func opened(t testing.TB, path string) *Bundle { return openedOn(t, path, "") }

func openedOn(t testing.TB, path, at string) *Bundle {
	b := OpenOn(path, at)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// smallKeys size a network of any family.
var smallKeys = Keys{Layers: 2, Heads: 2, Width: 8, Vocab: 13, Context: 6, RopeTheta: 10000}

func smallDefinitions(t *testing.T) []Definition {
	t.Helper()
	gpt, err := NewGPT2(GPT2Config{Layers: 2, Heads: 2, Width: 8, Vocab: 13, Context: 6})
	require.NoError(t, err)
	untied, err := NewGPT2(GPT2Config{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6, Untied: true, Activation: "gelu_erf", Intermediate: 12, Eps: 1e-6, ResidualDropout: 0.1, AttentionDropout: 0.2})
	require.NoError(t, err)
	llama, err := NewLlama(LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 12, HeadDim: 4, Vocab: 13, Context: 6, RopeTheta: 5e5})
	require.NoError(t, err)
	tied, err := NewLlama(LlamaConfig{Layers: 1, Heads: 2, Width: 12, Vocab: 13, Context: 6, Tied: true})
	require.NoError(t, err)
	mlp, err := NewMLP(MLPConfig{Sizes: []int{5, 7, 3}, Activation: "tanh", Loss: "mse"})
	require.NoError(t, err)
	defs := []Definition{gpt, untied, llama, tied, mlp}
	for _, kind := range Kinds() {
		def, err := New(kind, smallKeys)
		require.NoError(t, err)
		defs = append(defs, def)
	}
	return defs
}

// writeHF exports arrays of the host.
func writeHF(dir string, def Definition, hosts []array.Host, o ExportOptions) error {
	return Export(dir, def, func(path string) ([]float32, error) {
		for _, h := range hosts {
			if h.Path == path {
				return h.Data, nil
			}
		}
		return nil, fmt.Errorf("parameter %q is missing", path)
	}, o)
}

// store writes tensors and a config.json into a directory.
func store(t *testing.T, def Definition, file string, dir string, tensors []safetensors.Tensor) {
	t.Helper()
	config, err := ConfigJSON(def, "F32")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	f, err := os.Create(filepath.Join(dir, file))
	require.NoError(t, err)
	require.NoError(t, safetensors.Write(f, tensors, nil))
	require.NoError(t, f.Close())
}

// index writes where the tensors of a directory are.
func index(t *testing.T, dir string, where map[string]string) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": where})
	require.NoError(t, err)
	write("model.safetensors.index.json", string(raw))(t, dir)
}

// sharded writes a model into two files, of which the first has 8 tensors.
func sharded(t *testing.T, dir string, def Definition, hosts []array.Host) {
	t.Helper()
	where := map[string]string{}
	for i, part := range [][]array.Host{hosts[:8], hosts[8:]} {
		name := fmt.Sprintf("model-0000%d-of-00002.safetensors", i+1)
		store(t, def, name, dir, named(part, ""))
		for _, h := range part {
			where[h.Path] = name
		}
	}
	index(t, dir, where)
}

func named(hosts []array.Host, prefix string) []safetensors.Tensor {
	var tensors []safetensors.Tensor
	for _, h := range hosts {
		tensors = append(tensors, safetensors.Float32s(prefix+h.Path, h.Shape, h.Data))
	}
	return tensors
}

func TestImportUnderstandsOtherProgramsFiles(t *testing.T) {
	defs := smallDefinitions(t)
	def, tiedLlama := defs[0], defs[3]
	hosts := Init(def, 9)
	mask := safetensors.Float32s("h.0.attn.bias", []int{1, 1, 2, 2}, make([]float32, 4))
	t.Run("prefix and masks", func(t *testing.T) {
		dir := t.TempDir()
		masked := safetensors.Float32s("transformer.h.1.attn.masked_bias", nil, []float32{-1e4})
		store(t, def, "model.safetensors", dir, append(named(hosts, "transformer."), mask, masked))
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, hosts, got)
	})
	t.Run("tied copy", func(t *testing.T) {
		dir := t.TempDir()
		wte := hosts[len(hosts)-1]
		require.Equal(t, "wte.weight", wte.Path)
		store(t, def, "model.safetensors", dir, append(named(hosts, ""), safetensors.Float32s("lm_head.weight", wte.Shape, wte.Data)))
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, hosts, got)
		other := append([]float32{1}, wte.Data[1:]...)
		store(t, def, "model.safetensors", dir, append(named(hosts, ""), safetensors.Float32s("lm_head.weight", wte.Shape, other)))
		_, _, err = ReadHF(dir)
		require.ErrorContains(t, err, `"lm_head.weight" differs from "wte.weight"`)
	})
	t.Run("rotary frequencies", func(t *testing.T) {
		dir := t.TempDir()
		llamaHosts := Init(tiedLlama, 9)
		store(t, tiedLlama, "model.safetensors", dir, append(named(llamaHosts, ""),
			safetensors.Float32s("model.layers.0.self_attn.rotary_emb.inv_freq", []int{3}, make([]float32, 3))))
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, llamaHosts, got)
	})
	t.Run("shards", func(t *testing.T) {
		dir := t.TempDir()
		sharded(t, dir, def, hosts)
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, hosts, got)
		store(t, def, "model-00001-of-00002.safetensors", dir, named(hosts[:9], ""))
		_, _, err = ReadHF(dir)
		require.ErrorContains(t, err, fmt.Sprintf("tensor %q is in two files", hosts[8].Path))
	})
}

func TestImportErrorsNameTheTensors(t *testing.T) {
	def := smallDefinitions(t)[0]
	hosts := Init(def, 9)
	good := named(hosts, "")
	bad := func(tensors []safetensors.Tensor) error {
		dir := t.TempDir()
		store(t, def, "model.safetensors", dir, tensors)
		_, _, err := ReadHF(dir)
		return err
	}
	require.NoError(t, bad(good))
	require.ErrorContains(t, bad(good[2:]), fmt.Sprintf("%q is missing; %q is missing", hosts[0].Path, hosts[1].Path))
	require.ErrorContains(t, bad(append(good[:len(good):len(good)], safetensors.Float32s("h.2.ln_1.weight", []int{8}, make([]float32, 8)))),
		`"h.2.ln_1.weight" is no parameter of this model`)
	turned := append(good[:len(good)-1:len(good)-1], safetensors.Float32s("wte.weight", []int{8, 13}, hosts[len(hosts)-1].Data))
	require.ErrorContains(t, bad(turned), `"wte.weight": shape [8 13], want [13 8]`)
	require.ErrorContains(t, bad(append(good[:len(good):len(good)], named(hosts[:1], "transformer.")...)), "are the same parameter")
	require.ErrorContains(t, bad(good[:4]), "and ", "a long list is cut")
	whole := safetensors.Int32s("wte.weight", []int{13, 8}, make([]int32, 104))
	require.ErrorContains(t, bad(append(good[:len(good)-1:len(good)-1], whole)), "I32")

	dir := t.TempDir()
	store(t, def, "model.safetensors", dir, good)
	raw, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), raw[:len(raw)-5], 0o644))
	_, _, err = ReadHF(dir)
	require.ErrorContains(t, err, "model.safetensors")
}

// A model in several files is the model in one: read by us, and file by file by what the index says.
func TestExportInShards(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		hosts := Init(def, 5)
		one, several := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "several")
		require.NoError(t, writeHF(one, def, hosts, ExportOptions{DType: "BF16"}))
		stored, err := opened(t, one).Weights(def)
		require.NoError(t, err)
		largest := 0
		for _, h := range hosts {
			largest = max(largest, 2*len(h.Data))
		}
		require.NoError(t, Export(several, def, stored.Read, ExportOptions{DType: "BF16", ShardBytes: uint64(largest)}))
		_, a, err := ReadHF(one)
		require.NoError(t, err)
		_, b, err := ReadHF(several)
		require.NoError(t, err)
		assert.Equal(t, a, b)

		files, err := opened(t, several).WeightFiles()
		require.NoError(t, err)
		require.Greater(t, len(files), 1)
		index, err := readIndex(filepath.Join(several, "model.safetensors.index.json"))
		require.NoError(t, err)
		tensors := 0
		for _, name := range files {
			f, err := safetensors.Open(name)
			require.NoError(t, err)
			bytes := 0
			for _, tensor := range f.Names() {
				assert.Equal(t, filepath.Base(name), index[tensor])
				data, err := f.Float32(tensor)
				require.NoError(t, err)
				bytes += 2 * len(data)
				tensors++
			}
			assert.LessOrEqual(t, bytes, largest)
			assert.Equal(t, Metadata(), f.Metadata())
			require.NoError(t, f.Close())
		}
		if def.Kind() == "qwen3_moe" { // of each host of experts a tensor for each
			assert.Greater(t, tensors, len(hosts))
		} else {
			assert.Equal(t, len(hosts), tensors)
		}
		assert.Len(t, index, tensors)
		assert.NoFileExists(t, filepath.Join(several, "model.safetensors"))
	}
}
