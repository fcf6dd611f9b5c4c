package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Cases of chats and of their labels pass as they are, and fail where a text, a part, an error, an id or a label is another.
func TestChats(t *testing.T) {
	const config = `{"chat_template": "{% for m in messages %}{% if m.role == 'no' %}{{ raise_exception('not no') }}{% endif %}{% generation %}{{ m.content }}{% endgeneration %}!{% endfor %}"}`
	const chats = `{"format_version": 1, "kind": "chat", "now": "2026-11-22T07:14:45", "cases": [
		{"talk": "one", "messages": [{"role": "user", "content": "a"}], "text": "a!", "generation": [[0, 1]]},
		{"talk": "no", "messages": [{"role": "no", "content": "a"}], "error": "not no"}]}`
	const labels = `{"format_version": 1, "kind": "sft", "tokenizer": "tokenizers/x", "chat": "chat/x", "cases": [{"talk": "one", "ids": [0, 1], "labels": [0, -100], "learned": "a"}]}`
	const tokenizer = `{"model": {"type": "BPE", "vocab": {"a": 0, "!": 1}, "merges": []}, "decoder": {"type": "Fuse"}}`
	for _, c := range []struct{ file, from, to, says string }{
		{"chat/x/cases.json", "", "", ""},
		{"chat/x/cases.json", `"text": "a!"`, `"text": "b!"`, `case 0 text: found "a!", want "b!"`},
		{"chat/x/cases.json", "[[0, 1]]", "[[0, 2]]", "case 0 generation: found [[0,1]], want [[0,2]]"},
		{"chat/x/cases.json", `"error": "not no"`, `"error": "no"`, `case 1 error: found "not no", want "no"`},
		{"chat/x/cases.json", `"error": "not no"`, `"text": ""`, `case 1 error: found "not no", want ""`},
		{"chat/x/cases.json", `"text": "a!"`, `"error": "E"`, `case 0: found a text, want the error "E"`},
		{"sft/x.json", "", "", ""},
		{"sft/x.json", "[0, 1]", "[0, 0]", "case 0 ids: found [0,1], want [0,0]"},
		{"sft/x.json", "-100", "1", "case 0 labels: found [0,-100], want [0,1]"},
		{"sft/x.json", `"learned": "a"`, `"learned": "b"`, `case 0 learned: found "a", want "b"`},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{
			"chat/x/tokenizer_config.json": config, "chat/x/cases.json": chats, "sft/x.json": labels, "tokenizers/x/tokenizer.json": tokenizer,
		} {
			path := filepath.Join(root, filepath.FromSlash(name))
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
			if name == c.file && c.from != "" {
				require.Contains(t, text, c.from)
				text = strings.Replace(text, c.from, c.to, 1)
			}
			require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		}
		r := TextCase{c.file, filepath.Join(root, filepath.FromSlash(c.file))}.Run()
		assert.Equal(t, Result{Case: c.file, Adapter: NoAdapter, Pass: c.says == "", Worst: c.says, MaxError: r.MaxError}, r)
	}
}
