package hub

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "gputrain/model"
)

// A PEFT directory that is read and written again has the same bytes, whatever its type, with its base's head tied and
// not.
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
					dir, beside := written(t, def, dtype)
					read, err := ReadConfig(dir)
					require.NoError(t, err)
					assert.True(t, Same(mustDrop(t, def), mustDrop(t, read)), "the same graph")
					weights, err := opened(t, dir).Weights(read)
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
					found, err := opened(t, dir).Base()
					require.NoError(t, err)
					assert.Equal(t, beside, found.Path("."))
				}
			})
		}
	}
}

// Keys that change numbers and are not known are refused by name; those that change none pass, and are written back.
func TestAdapterConfigRefuses(t *testing.T) {
	base, err := New("llama", smallKeys)
	require.NoError(t, err)
	def, err := WithLoRA(base, LoRA{Rank: 2})
	require.NoError(t, err)
	dir, beside := written(t, def, "F32")
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
		{"task_type", `"SEQ_2_SEQ_LM"`, `task_type: "SEQ_2_SEQ_LM", want one of CAUSAL_LM, SEQ_CLS, FEATURE_EXTRACTION`},
		{"task_type", `"SEQ_CLS"`, `found no base_model.model.score.weight`},
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
			_, err = opened(t, dir).Weights(read)
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
		_, err = opened(t, dir).Weights(read)
		require.NoError(t, err, key)
		config, err := AdapterConfig(read, "")
		require.NoError(t, err)
		var fields map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(config, &fields))
		assert.JSONEq(t, value, string(fields[key]))
	}
	with("r", "2")
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(beside, moved))
	_, err = ReadConfig(dir)
	var lost *BaseError
	require.ErrorAs(t, err, &lost)
	read, err := openedOn(t, dir, moved).Definition()
	require.NoError(t, err)
	_, err = openedOn(t, dir, moved).Weights(read)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, AdapterWeightsFile)))
	_, err = openedOn(t, dir, moved).Weights(read)
	require.ErrorContains(t, err, "found no adapter_model.safetensors, wanted the adapters")
}

// What stands in place of a file that was not downloaded is called what it is, also where it is JSON.
func TestAdapterConfigIsNone(t *testing.T) {
	for text, says := range map[string]string{
		pointer: "found a Git LFS pointer, wanted a file of 988097824 bytes", `{"error": "Access to it is restricted"}`: "found a server's refusal",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, AdapterConfigFile), []byte(text), 0o666))
		_, err := ReadConfig(dir)
		assert.ErrorContains(t, err, says)
	}
}

// written writes the adapters of def into a new directory, and its base in BF16 beside it.
func written(t *testing.T, def Definition, dtype string) (dir, base string) {
	t.Helper()
	dir, base = filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "base")
	require.NoError(t, writeHF(base, BaseOf(def), Init(BaseOf(def), 5), ExportOptions{DType: "BF16"}))
	require.NoError(t, writeHF(dir, def, Init(def, 6), ExportOptions{DType: dtype, Base: base}))
	return dir, base
}

// mustDrop is def without the dropout of its base, which an exported file may ask for.
func mustDrop(t *testing.T, def Definition) Definition {
	t.Helper()
	def, err := WithDropout(def, 0)
	require.NoError(t, err)
	return def
}
