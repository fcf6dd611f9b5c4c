package setup

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// generation_config.json gets a token that was learned, and else stays as it is, byte for byte.
func TestDrawnUntil(t *testing.T) {
	const left = "as it is"
	for name, c := range map[string]struct {
		file string // "": there is none
		ends []int32
		make bool
		want string
	}{
		"none, and nothing to say":    {"", []int32{7}, false, ""},
		"none":                        {"", []int32{0, 7}, true, `{"eos_token_id": [0, 7]}`},
		"none, with one end":          {"", []int32{7}, true, `{"eos_token_id": 7}`},
		"it is there":                 {`{"eos_token_id": 7 }`, []int32{0, 7}, true, left},
		"it is in the list":           {`{"eos_token_id": [3, 7], "x": null}`, []int32{0, 7}, true, left},
		"another id":                  {`{"eos_token_id": 3, "top_p": 0.90}`, []int32{0, 7}, true, `{"eos_token_id": [3, 7], "top_p": 0.90}`},
		"other ids":                   {`{"eos_token_id": [3, 4]}`, []int32{7}, false, `{"eos_token_id": [3, 4, 7]}`},
		"none named":                  {`{"top_k": 2}`, []int32{0, 7}, false, `{"eos_token_id": [0, 7], "top_k": 2}`},
		"a model that says null here": {`{"eos_token_id": null}`, []int32{7}, false, `{"eos_token_id": 7}`},
	} {
		beside := []checkpoint.Source{checkpoint.TextFile("tokenizer.json", []byte("{}"))}
		if c.file != "" {
			beside = append(beside, checkpoint.TextFile(checkpoint.GenerationFile, []byte(c.file)))
		}
		found, err := drawnUntil(beside, c.ends, 7, c.make)
		require.NoError(t, err, name)
		text := ""
		for _, s := range found[1:] {
			assert.Equal(t, checkpoint.GenerationFile, s.Name)
			var b bytes.Buffer
			require.NoError(t, s.Write(&b))
			text += b.String()
		}
		switch c.want {
		case "":
			assert.Empty(t, text, name)
		case left:
			assert.Equal(t, c.file, text, name)
		default:
			assert.JSONEq(t, c.want, text, name)
		}
	}
}

// A tokenizer that lies elsewhere than the model has no generation_config.json: then the model's own is the beginning.
func TestWithDrawn(t *testing.T) {
	dir, own := t.TempDir(), []checkpoint.Source{checkpoint.TextFile(checkpoint.GenerationFile, []byte("{}"))}
	for _, c := range []struct {
		beside []checkpoint.Source
		from   string
		file   bool
		want   []string
	}{
		{nil, "", false, nil}, {nil, dir, false, nil}, {nil, dir, true, []string{`{"top_k": 3}`}}, {own, dir, true, []string{"{}"}},
	} {
		if c.file {
			require.NoError(t, os.WriteFile(filepath.Join(dir, generationFile), []byte(`{"top_k": 3}`), 0o666))
		}
		var from *hub.Bundle
		if c.from != "" {
			from = hub.Open(c.from)
		}
		found, err := withDrawn(c.beside, from)
		require.NoError(t, err)
		var texts []string
		for _, s := range found {
			var b bytes.Buffer
			require.NoError(t, s.Write(&b))
			texts = append(texts, b.String())
		}
		assert.Equal(t, c.want, texts)
	}
}

// A merged model ends its answers by the base's tokens, and by those that the adapters have learned beyond them.
func TestMergedEnds(t *testing.T) {
	for name, c := range map[string]struct {
		adapters, base, config string // generation_config.json of each ("": none), and eos_token_id of config.json
		want                   []int32
	}{
		"nothing learned":                     {`{"eos_token_id": [3, 7]}`, `{"eos_token_id": [3, 7]}`, "3", nil},
		"learned":                             {`{"eos_token_id": [3, 7]}`, `{"eos_token_id": 3}`, "3", []int32{3, 7}},
		"of a base that says none":            {`{"eos_token_id": [0, 7]}`, "", "null", []int32{0, 7}},
		"of a base whose list is in one file": {`{"eos_token_id": [3, 4, 7]}`, `{"eos_token_id": [3, 4]}`, "null", []int32{3, 4, 7}},
		"known to config.json":                {`{"eos_token_id": [3, 7]}`, `{"eos_token_id": 3}`, "[3, 7]", nil},
		"adapters without the file":           {"", `{"eos_token_id": 3}`, "3", nil},
	} {
		dir := func(text string) *hub.Bundle {
			dir := t.TempDir()
			if text != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, generationFile), []byte(text), 0o666))
			}
			return hub.Open(dir)
		}
		merged, err := model.ParseConfig([]byte(`{"model_type": "llama", "hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 9, ` +
			`"max_position_embeddings": 8, "rms_norm_eps": 1e-5, "eos_token_id": ` + c.config + `}`))
		require.NoError(t, err)
		found, err := MergedEnds(dir(c.adapters), dir(c.base), merged)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, found, name)
	}
}
