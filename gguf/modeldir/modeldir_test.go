package modeldir

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gguf"
)

// A file of a directory, and of a GGUF file that stands for one; also after another was read, and after it has changed.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o666))
	raw, err := Read(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	assert.Equal(t, "{}", string(raw))
	assert.True(t, Has(dir, "config.json"))
	assert.False(t, Has(dir, "tokenizer.json"))

	write := func(name, template string) string {
		var b bytes.Buffer
		require.NoError(t, gguf.Write(&b, []gguf.Key{
			{Name: "general.architecture", Value: "llama"},
			{Name: "tokenizer.ggml.model", Value: "gpt2"},
			{Name: "tokenizer.ggml.tokens", Value: []string{"a"}},
			{Name: "tokenizer.chat_template", Value: template},
		}, nil))
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o666))
		return path
	}
	said := func(path string) string {
		var c struct {
			Template string `json:"chat_template"`
		}
		require.NoError(t, ReadJSON(filepath.Join(path, "tokenizer_config.json"), &c))
		return c.Template
	}
	one, two := write("one", "first"), write("two", "other")
	assert.Equal(t, []string{"first", "other", "first"}, []string{said(one), said(two), said(one)})
	write("one", "again")
	require.NoError(t, os.Chtimes(one, time.Time{}, time.Now().Add(time.Hour)))
	assert.Equal(t, "again", said(one), "it has changed")
	assert.True(t, Has(one, "tokenizer_config.json"))
	assert.False(t, Has(one, "run.yaml"))
	_, err = Read(filepath.Join(one, "tokenizer.model"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
