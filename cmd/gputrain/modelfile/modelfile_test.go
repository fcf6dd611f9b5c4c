package modelfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/text/chat"
)

var today = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func opened(t *testing.T, source string) *chat.Template {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, chat.File), []byte(source), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"bos_token": "<s>", "eos_token": "</s>"}`), 0o666))
	of, err := chat.OpenTemplate(hub.Open(dir), "")
	require.NoError(t, err)
	return of
}

// Templates as models have them come out as the same text: translate compares, and fails here if it does not.
func TestTemplates(t *testing.T) {
	for name, source := range map[string]string{
		"chatml":           `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`,
		"a default system": `{% if messages[0].role != 'system' %}<|im_start|>system\nYou are "it".<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}`,
		"llama3":           `{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ '\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>{{ '\n\n' }}{% endif %}`,
		"gemma": `{{ bos_token }}{% if messages[0].role == 'system' %}{% set first = messages[0].content + '\n\n' %}{% set all = messages[1:] %}{% else %}{% set first = '' %}{% set all = messages %}{% endif %}` +
			`{% for m in all %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}{{ '\n' + (first if loop.first else '') + m.content }}<end_of_turn>{{ '\n' }}{% endfor %}{% if add_generation_prompt %}<start_of_turn>model{{ '\n' }}{% endif %}`,
		"mistral": `{{ bos_token }}{% if messages[0].role == 'system' %}{% set says = messages[0].content %}{% set all = messages[1:] %}{% else %}{% set says = '' %}{% set all = messages %}{% endif %}` +
			`{% for m in all %}{% if m.role == 'user' %}[INST] {{ (says + '\n\n' if loop.last and says else '') + m.content }} [/INST]{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}`,
		"no system": `{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% elif m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}`,
	} {
		var b strings.Builder
		notes, err := Write(&b, Model{From: "./m.gguf", Template: opened(t, source), Begin: "<s>", Stops: []string{"<|im_end|>"}, Parameters: []Parameter{{"temperature", "0.6"}}}, today)
		require.NoError(t, err, name)
		assert.Equal(t, name == "no system", len(notes) > 0, name)
		assert.True(t, strings.HasPrefix(b.String(), "FROM ./m.gguf\nTEMPLATE \"\"\"{{-"), name)
		assert.True(t, strings.HasSuffix(b.String(), "\"\"\"\nPARAMETER stop \"<|im_end|>\"\nPARAMETER temperature 0.6\n"), name)
		assert.Equal(t, name != "no system", strings.Contains(b.String(), ".System }}"), name)
		assert.NotContains(t, b.String(), "<s>", "%s: Ollama puts it there", name)
	}
}

// What a template does by more than roles is no template of Ollama's, and one that writes the date is told.
func TestTemplatesThatDoMore(t *testing.T) {
	for says, source := range map[string]string{
		"it looks at more than roles":                             `{% for m in messages %}{{ m.role }}: {{ m.content if m.content | length < 12 else m.content | upper }};{% endfor %}`,
		"it writes \"userA;assistantb":                            `{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}{{ m.role + (m.content if messages | length != 5 or m.content != 'a' else 'A') }};{% endfor %}`,
		"of a conversation of 5 messages":                         `{% for m in messages %}{{ loop.index }} {{ m.role }}: {{ m.content }};{% endfor %}`,
		"found no content of the user's message in its text":      `{% for m in messages %}{{ m.content | upper }};{% endfor %}`,
		"found no content of the assistant's message in its text": `{% for m in messages if m.role != 'assistant' %}{{ m.content }};{% endfor %}`,
	} {
		_, err := Write(&strings.Builder{}, Model{Template: opened(t, source)}, today)
		assert.ErrorContains(t, err, says)
	}
	notes, err := Write(&strings.Builder{}, Model{Template: opened(t, `{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.role + m.content }};{% endfor %}`)}, today)
	require.NoError(t, err)
	assert.Equal(t, []string{"the chat template writes the day's date, the Modelfile always that of today"}, notes)
}

// A model without a template has the rest.
func TestWithoutTemplate(t *testing.T) {
	var b strings.Builder
	_, err := Write(&b, Model{From: "./m.gguf", Stops: []string{`a"b`}}, today)
	require.NoError(t, err)
	assert.Equal(t, "FROM ./m.gguf\nPARAMETER stop \"a\\\"b\"\n", b.String())
}
