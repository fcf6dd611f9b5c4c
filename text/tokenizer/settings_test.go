package tokenizer

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Normalizers, pre-tokenizers, decoders and added tokens by random settings, each with texts by the reference library.
func TestRandomSettings(t *testing.T) {
	raw, err := os.ReadFile("testdata/settings.json")
	require.NoError(t, err)
	var file struct {
		Settings []struct {
			Base  string                     `json:"base"`
			Parts map[string]json.RawMessage `json:"parts"`
			Model map[string]json.RawMessage `json:"model"`
			Added []json.RawMessage          `json:"added"`
			Cases []textCase                 `json:"cases"`
		} `json:"settings"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	require.Greater(t, len(file.Settings), 40)
	for _, s := range file.Settings {
		changed := altered(t, s.Base, func(whole, model map[string]json.RawMessage) {
			for name, part := range s.Parts {
				whole[name] = part
			}
			for name, flag := range s.Model {
				model[name] = flag
			}
			var added []json.RawMessage
			require.NoError(t, json.Unmarshal(whole["added_tokens"], &added))
			whole["added_tokens"], err = json.Marshal(append(added, s.Added...))
			require.NoError(t, err)
		})
		tok, err := parseJSON(changed, &settings{})
		require.NoError(t, err)
		for _, c := range s.Cases {
			if c.Decoded != nil {
				checkCase(t, tok, c)
				continue
			}
			ids, err := tok.Encode(c.Text, Options{Special: true}) // how normalized added tokens decode depends on the library's version
			require.NoError(t, err)
			assert.Equal(t, c.WithSpecial, ids, "%q", c.Text)
		}
	}
}

// altered is a tokenizer.json of testdata with some of it changed.
func altered(t testing.TB, base string, change func(whole, model map[string]json.RawMessage)) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + base + "/tokenizer.json")
	require.NoError(t, err)
	var whole, model map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &whole))
	require.NoError(t, json.Unmarshal(whole["model"], &model))
	change(whole, model)
	if whole["model"] != nil {
		whole["model"], err = json.Marshal(model)
		require.NoError(t, err)
	}
	raw, err = json.Marshal(whole)
	require.NoError(t, err)
	return raw
}
