package hub

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf"
)

// A directory, a GGUF file and a tokenizer's file alone are file systems of what they have, and of nothing besides.
func TestBundleIsAFileSystem(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"config.json": "{}", "tokenizer.json": "json", "own": "own", "a/b.jinja": "b"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o777))
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o666))
	}
	var raw bytes.Buffer
	require.NoError(t, gguf.Write(&raw, []gguf.Key{
		{Name: "general.architecture", Value: "llama"},
		{Name: "tokenizer.ggml.model", Value: "gpt2"},
		{Name: "tokenizer.ggml.tokens", Value: []string{"a"}},
		{Name: "tokenizer.chat_template", Value: "said"},
	}, nil))
	require.NoError(t, os.WriteFile(at("model"), raw.Bytes(), 0o666))
	alone, err := OpenTokenizer(at("own"))
	require.NoError(t, err)
	for _, c := range []struct {
		of        *Bundle
		has, none []string
	}{
		{opened(t, dir), []string{"config.json", "tokenizer.json", "a/b.jinja"}, []string{"tokenizer.model", "no"}},
		{opened(t, at("model")), []string{"tokenizer_config.json"}, []string{"run.yaml", "tokenizer.model", "a"}},
		{alone, []string{"tokenizer.json", "config.json"}, []string{"tokenizer.model"}},
	} {
		for _, name := range c.has {
			assert.True(t, c.of.Has(name), name)
			f, err := c.of.Open(name)
			require.NoError(t, err, name)
			require.NoError(t, f.Close())
		}
		for _, name := range c.none {
			assert.False(t, c.of.Has(name), name)
			_, err := c.of.ReadFile(name)
			assert.ErrorIs(t, err, fs.ErrNotExist, name)
		}
		_, err := c.of.ReadFile("../" + filepath.Base(dir) + "/config.json")
		assert.ErrorIs(t, err, fs.ErrInvalid)
	}
	text, err := alone.ReadFile("tokenizer.json")
	require.NoError(t, err)
	assert.Equal(t, []string{"own", at("own"), at("own"), dir}, []string{string(text), alone.Path("."), alone.Path("tokenizer.json"), alone.Directory().Path(".")})
	entries, err := opened(t, dir).ReadDir("a")
	require.NoError(t, err)
	assert.Len(t, entries, 1)
	text, err = opened(t, at("model")).ReadFile("tokenizer_config.json")
	require.NoError(t, err)
	var c struct {
		Template string `json:"chat_template"`
	}
	require.NoError(t, json.Unmarshal(text, &c))
	assert.Equal(t, "said", c.Template)
	_, err = OpenTokenizer(at("gone"))
	assert.ErrorContains(t, err, `tokenizer: open "`+at("gone")+`": stat `)
}
