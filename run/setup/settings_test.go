package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
	"gputrain/run/record"
	"gputrain/run/runfile"
)

// The settings of a model that was read are the model's and not the defaults of a new one, which an earlier program recorded; their record is a run file too.
func TestSettingsOfAModelThatWasRead(t *testing.T) {
	def, err := model.ParseConfig([]byte(`{"model_type": "llama", "hidden_size": 48, "num_attention_heads": 6, "num_hidden_layers": 3, "intermediate_size": 96, ` +
		`"vocab_size": 320, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5e5}`))
	require.NoError(t, err)
	plain, err := model.New("gpt2", model.Keys{Layers: 3, Heads: 6, Width: 48, Context: 64, Vocab: 320})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		from string
		def  model.Definition
		want map[string]any
	}{
		"read":                   {"m", def, map[string]any{"model.kind": "llama", "model.layers": 3, "model.heads": 6, "model.width": 48, "model.vocab": 320, "model.rope_theta": 5e5, "model.context": 32}},
		"one without a rotation": {"m", plain, map[string]any{"model.kind": "gpt2", "model.width": 48, "model.intermediate": 0, "model.rope_theta": 0.0}},
		"new":                    {"", plain, map[string]any{"model.kind": "gpt2", "model.layers": 4, "model.width": 128, "model.rope_theta": 10000.0}},
	} {
		cfg, err := runfile.ReadAll(nil, nil, []string{"model.from=" + c.from, "model.context=32"})
		require.NoError(t, err)
		found := map[string]record.Setting{}
		settings := Settings(cfg, c.def)
		for _, s := range settings {
			found[s.Key] = s
		}
		for key, want := range c.want {
			s := found[key]
			assert.Equal(t, want, s.Value, "%s: %s", name, key)
			if key != "model.context" {
				assert.Equal(t, c.from != "", s.Free, "%s: %s: what was recorded is not compared", name, key)
				assert.Equal(t, c.from != "", s.Origin == ofModel, key)
			}
		}
		var text strings.Builder
		require.NoError(t, record.Write(&text, settings))
		path := filepath.Join(t.TempDir(), "run.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o666))
		again, err := runfile.ReadAll([]string{path}, nil, nil)
		require.NoError(t, err, name)
		assert.Equal(t, c.want["model.kind"], again.Model.Kind)
	}
}
