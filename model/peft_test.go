package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/tests/frugal"
)

// written writes the adapters of def into a new directory, and its base in BF16 beside it.
func written(t *testing.T, def Definition, dtype string) (dir, base string, hosts []array.Host) {
	t.Helper()
	dir, base = filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "base")
	require.NoError(t, writeHF(base, BaseOf(def), Init(BaseOf(def), 5), "BF16"))
	hosts = Init(def, 6)
	read := func(path string) ([]float32, error) {
		i := slices.IndexFunc(hosts, func(h array.Host) bool { return h.Path == path })
		return hosts[i].Data, nil
	}
	require.NoError(t, Export(dir, def, read, ExportOptions{DType: dtype, Base: base}))
	return dir, base, hosts
}

// A PEFT directory that is read and written again has the same bytes, whatever its type, with its base's head tied and not.
func TestAdapterDirectory(t *testing.T) {
	for k, base := range smallDefinitions(t)[:4] {
		for i, l := range []LoRA{
			{Rank: 2, Target: []string{AllLinear}, Save: []string{"lm_head"}, RSLoRA: true},
			{Rank: 3, Alpha: 0.5, DoRA: true, RankPattern: map[string]int{`.*0\..*`: 1}, Layers: []int{0}, Dropout: 0.25},
		} {
			t.Run(fmt.Sprint(base.Kind(), k, l.Target), func(t *testing.T) {
				def, err := WithLoRA(base, l)
				require.NoError(t, err)
				for _, dtype := range [][]string{{"F32", "BF16"}, {"F16"}}[i] {
					dir, beside, _ := written(t, def, dtype)
					read, err := ReadConfig(dir)
					require.NoError(t, err)
					assert.True(t, Same(mustDrop(t, def), mustDrop(t, read)), "the same graph")
					weights, err := OpenWeights(dir, read)
					require.NoError(t, err)
					hosts, drawn := weights.Params(0)
					assert.Empty(t, drawn)
					assert.Len(t, hosts, len(def.Params()))
					again := filepath.Join(t.TempDir(), "again")
					require.NoError(t, Export(again, read, weights.Read, ExportOptions{Like: weights}))
					for _, name := range []string{AdapterConfigFile, AdapterWeightsFile} {
						one, err := os.ReadFile(filepath.Join(dir, name))
						require.NoError(t, err)
						other, err := os.ReadFile(filepath.Join(again, name))
						require.NoError(t, err)
						assert.Equal(t, one, other, name)
					}
					require.NoError(t, weights.Close())
					assert.Equal(t, beside, mustBase(t, dir))
				}
			})
		}
	}
}

func mustBase(t *testing.T, dir string) string {
	t.Helper()
	base, err := AdapterBase(dir, "")
	require.NoError(t, err)
	return base
}

// mustDrop is def without the dropout of its base, which an exported file may ask for.
func mustDrop(t *testing.T, def Definition) Definition {
	t.Helper()
	def, err := WithDropout(def, 0)
	require.NoError(t, err)
	return def
}

// The keys that other programs read are there, with what they mean.
func TestAdapterConfigKeys(t *testing.T) {
	for kind, want := range map[string]struct {
		turned  bool
		targets []any
	}{"llama": {false, []any{"q_proj", "v_proj"}}, "gpt2": {true, []any{"c_attn"}}, "phi3": {false, []any{"qkv_proj"}}} {
		base, err := New(kind, smallKeys)
		require.NoError(t, err)
		def, err := WithLoRA(base, LoRA{Rank: 4, Alpha: 6, Dropout: 0.25, DoRA: true})
		require.NoError(t, err)
		dir, beside, _ := written(t, def, "F32")
		raw, err := os.ReadFile(filepath.Join(dir, AdapterConfigFile))
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(raw, &fields))
		for key, value := range map[string]any{
			"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4.0, "lora_alpha": 6.0, "lora_dropout": 0.25, "use_dora": true, "use_rslora": false, "bias": "none",
			"fan_in_fan_out": want.turned, "target_modules": want.targets, "base_model_name_or_path": beside, "modules_to_save": nil, "rank_pattern": map[string]any{},
		} {
			assert.Equal(t, value, fields[key], "%s: %s", kind, key)
		}
	}
}

// Keys that change numbers and are not known are refused by name; those that change none pass, and are written back.
func TestAdapterConfigRefuses(t *testing.T) {
	base, err := New("llama", smallKeys)
	require.NoError(t, err)
	def, err := WithLoRA(base, LoRA{Rank: 2})
	require.NoError(t, err)
	dir, beside, _ := written(t, def, "F32")
	raw, err := os.ReadFile(filepath.Join(dir, AdapterConfigFile))
	require.NoError(t, err)
	with := func(key, value string) {
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &fields))
		fields[key] = json.RawMessage(value)
		changed, err := json.Marshal(fields)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, AdapterConfigFile), changed, 0o666))
	}
	for _, c := range []struct{ key, value, want string }{
		{"bias", `"all"`, `bias: "all", want "none"`},
		{"lora_bias", "true", "lora_bias: true, want nothing: adapters with biases are not supported"},
		{"peft_type", `"IA3"`, `peft_type: "IA3", want LORA`},
		{"task_type", `"SEQ_CLS"`, `task_type: "SEQ_CLS", want CAUSAL_LM`},
		{"init_lora_weights", `"pissa"`, `init_lora_weights: "pissa", want one of`},
		{"trainable_token_indices", "[1]", "single rows of an embedding"},
		{"layer_replication", "[[0, 2]]", "layers that are used several times"},
		{"use_dorra", "true", `use_dorra: true, want nothing: it is not known here, did you mean "use_dora"?`},
		{"exclude_modules", `["q_proj"]`, "targets that are left out"},
		{"r", "0", "r: 0, want a whole number from 1"},
		{"r", "99", "rank: found 99"},
		{"lora_alpha", "-1", "lora_alpha: -1, want a number above 0"},
		{"rank_pattern", `{"q_proj": "2"}`, `rank_pattern: {"q_proj":"2"}, want an object`},
		{"target_modules", `"q_proj"`, `target: "(?:q_proj)" matches no matrix`},
		{"target_modules", `["q_prj"]`, `target: "q_prj" matches no matrix`},
		{"target_modules", `["q_proj", "k_proj", "v_proj"]`, `found no base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight`},
		{"target_modules", `["q_proj"]`, `of which adapter_config.json says nothing`},
		{"use_dora", "true", `found no base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector`},
		{"r", "3", `"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": shape [2 8], want [3 8]: the adapter is of another base`},
		{"base_model_name_or_path", `"some/where"`, `found no directory ["some/where"`},
		{"base_model_name_or_path", fmt.Sprintf("%q", dir), "found adapters, wanted a whole model"},
		{"base_model_name_or_path", "null", "base_model_name_or_path: found none"},
	} {
		with(c.key, c.value)
		read, err := ReadConfig(dir)
		if err == nil {
			_, err = OpenWeights(dir, read)
		}
		require.ErrorContains(t, err, c.want, "%s: %s", c.key, c.value)
	}
	for key, value := range map[string]string{
		"eva_config": "null", "loftq_config": "{ }", "peft_version": `"0.17.1"`, "runtime_config": `{"ephemeral_gpu_offload":false}`, "init_lora_weights": `"gaussian"`,
		"of_tomorrow": "false", "layers_pattern": `"layers"`, "layers_to_transform": "[0,1]", "target_modules": `".*\\.(q|v)_proj"`,
	} {
		with(key, value)
		read, err := ReadConfig(dir)
		require.NoError(t, err, key)
		weights, err := OpenWeights(dir, read)
		require.NoError(t, err, key)
		files, err := AdapterFiles(read, weights.Read, ExportOptions{})
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, files[AdapterConfigFile](&out))
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(out.Bytes(), &fields))
		assert.JSONEq(t, value, string(fields[key]))
		require.NoError(t, weights.Close())
	}
	with("r", "2")
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(beside, moved))
	_, err = ReadConfig(dir)
	var lost *BaseError
	require.ErrorAs(t, err, &lost)
	read, err := ReadConfigOn(dir, moved)
	require.NoError(t, err)
	weights, err := OpenWeightsOn(dir, read, moved)
	require.NoError(t, err)
	require.NoError(t, weights.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, AdapterWeightsFile)))
	_, err = OpenWeightsOn(dir, read, moved)
	require.ErrorContains(t, err, "found no adapter_model.safetensors, wanted the adapters")
}

// A merged model is written as its base was: the same names and types, each number rounded once; a head that is trained apart is one of its own.
func TestExportMerged(t *testing.T) {
	for k, base := range smallDefinitions(t)[:4] {
		for _, l := range []LoRA{{Rank: 2, Target: []string{AllLinear}}, {Rank: 2, Save: []string{"lm_head"}, DoRA: true}} {
			t.Run(fmt.Sprint(base.Kind(), k, l.Save), func(t *testing.T) {
				def, err := WithLoRA(base, l)
				require.NoError(t, err)
				dir, beside, _ := written(t, def, "F32")
				read, err := ReadConfig(dir)
				require.NoError(t, err)
				weights, err := OpenWeights(dir, read)
				require.NoError(t, err)
				merged, err := Merged(read)
				require.NoError(t, err)
				out := filepath.Join(t.TempDir(), "merged")
				require.NoError(t, Export(out, merged, Merge(read, weights.Read), ExportOptions{Like: weights.Below()}))
				again, hosts, err := ReadHF(out)
				require.NoError(t, err)
				assert.Equal(t, merged.Params(), again.Params())
				exact := Merge(read, weights.Read)
				for _, h := range hosts {
					want, err := exact(h.Path)
					require.NoError(t, err)
					for i, x := range want {
						require.Equal(t, array.DecodeBF16(array.EncodeBF16(x)), h.Data[i], h.Path)
					}
				}
				if family := families[base.Kind()]; len(l.Save) > 0 {
					assert.True(t, family.hasHead(again.Params()))
				} else {
					assert.Equal(t, tensorNames(t, beside), tensorNames(t, out))
				}
				require.NoError(t, weights.Close())
			})
		}
	}
}

func tensorNames(t *testing.T, dir string) []string {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	defer f.Close()
	return f.Names()
}

// FuzzAdapterConfig: an adapter_config.json that is accepted says the same when it is written and read again.
func FuzzAdapterConfig(f *testing.F) {
	f.Add([]byte(`{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"], "rank_pattern": {"q_proj": 2, "v_proj": 3}, "layers_to_transform": [1]}`))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": ".*q_proj", "use_dora": true, "bias": "none", "alpha_pattern": {"q": 1e3}, "modules_to_save": ["lm_head"]}`))
	f.Add([]byte(`{"peft_type": "LORA", "layers_pattern": [""], "layers_to_transform": 3, "loftq_config": {}, "init_lora_weights": "gaussian"}`))
	base, err := New("llama", smallKeys)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p peft
		var err error
		frugal.Parse(t, len(raw), func() { p, err = parsePEFT(raw) })
		if err != nil {
			return
		}
		again := peft{}
		text, err := json.Marshal(p.fields)
		require.NoError(t, err)
		again, err = parsePEFT(text)
		require.NoError(t, err)
		require.Equal(t, p.lora.Target, again.lora.Target)
		require.Equal(t, slices.Sorted(maps.Keys(p.lora.RankPattern)), slices.Sorted(maps.Keys(again.lora.RankPattern)))
		if def, err := p.adapt(base); err == nil {
			require.NotEmpty(t, AdapterParams(def))
			_, err := def.Build(1, 2, Options{Loss: true})
			require.NoError(t, err)
		}
	})
}

// What stands in place of a file that was not downloaded is called what it is, also where it is JSON.
func TestAdapterConfigIsNone(t *testing.T) {
	for text, says := range map[string]string{
		pointer: "found a Git LFS pointer, wanted a file of 988097824 bytes", `{"error": "Access to it is restricted"}`: "found a server's refusal",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, AdapterConfigFile), []byte(text), 0o666))
		_, err := readPEFT(dir)
		assert.ErrorContains(t, err, says)
	}
}
