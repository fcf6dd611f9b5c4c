package model

import (
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

// A merged model is written as its base was: the same names and types, each number rounded once; a head that is trained apart is one of its own.
func TestExportMerged(t *testing.T) {
	for k, base := range smallDefinitions(t)[:4] {
		for _, l := range []LoRA{{Rank: 2, Target: []string{AllLinear}}, {Rank: 2, Save: []string{"lm_head"}, DoRA: true}} {
			t.Run(fmt.Sprint(base.Kind(), k, l.Save), func(t *testing.T) {
				def, err := WithLoRA(base, l)
				require.NoError(t, err)
				dir, beside, _ := written(t, def, "F32")
				read, weights := openAdapters(t, dir, beside)
				merged, err := Merged(read)
				require.NoError(t, err)
				out := filepath.Join(t.TempDir(), "merged")
				require.NoError(t, Export(out, merged, Merge(read, weights.Read), ExportOptions{Like: weights.Below()}))
				again, hosts, err := readHF(out)
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
		if def, err := p.adapt(base, nil); err == nil {
			require.NotEmpty(t, AdapterParams(def))
			_, err := def.Build(1, 2, Options{Logits: true})
			require.NoError(t, err)
		}
	})
}
