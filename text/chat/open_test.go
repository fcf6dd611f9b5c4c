package chat

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
)

// directory makes one of files; a name that ends in / makes a folder.
func directory(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	return dir
}

func written(t *testing.T, of *Template, line string) string {
	c, err := FromRow(row(t, line), "")
	require.NoError(t, err)
	made, err := of.Render(c.Messages, &c.Variables, false, time.Time{})
	require.NoError(t, err)
	return made.Text
}

// Which template of a directory counts, and what it knows of special tokens.
func TestOpen(t *testing.T) {
	const plain, tools = `{"messages": [{"role": "user", "content": "a"}]}`, `{"messages": [{"role": "user", "content": "a"}], "tools": []}`
	several := `{"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}, {"name": "rag", "template": "R"}]}`
	for _, c := range []struct {
		files           map[string]string
		what            string
		plain, withTool string
	}{
		{map[string]string{"tokenizer_config.json": `{"chat_template": "C\n"}`}, "", "C", "C"},
		{map[string]string{"tokenizer_config.json": several}, "", "D", "T"},
		{map[string]string{"tokenizer_config.json": several}, "rag", "R", "R"},
		{map[string]string{"tokenizer_config.json": several, "chat_template.jinja": "J"}, "", "J", "J"},
		{map[string]string{"tokenizer_config.json": several, "chat_template.jinja": "J", "additional_chat_templates/tool_use.jinja": "A"}, "", "J", "A"},
		{map[string]string{"chat_template.jinja": "J", "additional_chat_templates/x.jinja": "X", "additional_chat_templates/y.txt": "{{"}, "x", "X", "X"},
		{map[string]string{"chat_template.json": `{"chat_template": "P"}`}, "", "P", "P"},
		{map[string]string{"chat_template.json": `{"chat_template": "P"}`, "tokenizer_config.json": `{"chat_template": "C"}`}, "", "C", "C"},
		{
			map[string]string{
				"tokenizer_config.json":   `{"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>", "pad_token": null, "additional_special_tokens": ["a", {"content": "b"}], "extra_special_tokens": {"image_token": "I"}}`,
				"special_tokens_map.json": `{"eos_token": "other", "unk_token": {"content": "U"}}`,
				"chat_template.jinja":     "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ unk_token }}{{ additional_special_tokens }}{{ image_token }}{{ tools }}{{ documents }}{{ add_generation_prompt }}",
			}, "", "<s></s>FalseU['a', 'b']INoneNoneFalse", "<s></s>FalseU['a', 'b']I[]NoneFalse",
		},
		{map[string]string{"tokenizer_config.json": `{"eos_token": "E"}`}, "alpaca", "### Instruction:\na\n\n", ""},
		{map[string]string{"tokenizer_config.json": several}, "chatml", "<|im_start|>user\na<|im_end|>\n", ""},
	} {
		of, err := OpenTemplate(hub.Open(directory(t, c.files)), c.what)
		require.NoError(t, err, c)
		assert.Equal(t, c.plain, written(t, of, plain), c)
		if c.withTool != "" {
			assert.Equal(t, c.withTool, written(t, of, tools), c)
		}
	}
	file := filepath.Join(directory(t, map[string]string{"own.jinja": "O{{ eos_token }}"}), "own.jinja")
	of, err := OpenTemplate(hub.Open(directory(t, map[string]string{"tokenizer_config.json": `{"eos_token": "E", "chat_template": "C"}`})), file)
	require.NoError(t, err)
	assert.Equal(t, "OE", written(t, of, plain))
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		what  string
		says  string
	}{
		{nil, "", "no chat template: found neither chat_template.jinja nor chat_template in tokenizer_config.json, wanted one; a base model has none: data.template names a built-in one (alpaca, chatml) or a .jinja file"},
		{nil, "chatm", `template: found "chatm", wanted one of alpaca, chatml, or a file that ends in .jinja, did you mean "chatml"?`},
		{map[string]string{"chat_template.jinja": "a\n{{"}, "", "chat/template: chat_template.jinja: line 2: {{ is not closed, wanted }}"},
		{map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "x", "template": "{{"}]}`}, "", "chat/template: tokenizer_config.json: x: line 1: {{ is not closed"},
		{map[string]string{"tokenizer_config.json": `{"chat_template": 5}`}, "", "tokenizer_config.json: chat_template: found 5, wanted a text, or a list of objects with name and template"},
		{map[string]string{"tokenizer_config.json": `{"chat_template": "C", "bos_token": 5}`}, "", "bos_token: found 5, wanted a text, or an object with a content"},
		{map[string]string{"chat_template.jinja/x": ""}, "", "found a directory, wanted a regular file"},
		{map[string]string{folder: ""}, "", "additional_chat_templates: found no directory, wanted one"},
		{nil, "none.jinja", "no such file"},
	} {
		_, err := OpenTemplate(hub.Open(directory(t, c.files)), c.what)
		assert.ErrorContains(t, err, c.says, c)
	}
	_, err := OpenTemplate(hub.Open(t.TempDir()), "")
	require.ErrorIs(t, err, ErrNone)
	of, err := OpenTemplate(hub.Open(directory(t, map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "a", "template": "A"}]}`})), "")
	require.NoError(t, err)
	c, err := FromRow(row(t, `{"messages": [{"role": "user", "content": "a"}]}`), "")
	require.NoError(t, err)
	_, err = of.Render(c.Messages, &c.Variables, false, time.Time{})
	assert.ErrorContains(t, err, `found no template of the name "default", wanted one, or one of a by its name (data.template)`)
}
