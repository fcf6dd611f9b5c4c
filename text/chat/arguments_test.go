package chat

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Arguments of calls come out as Jinja2 has them of the row, in the manners of published templates, but for a text that it would quote a second time
// or refuse. Rows that earlier programs wrote otherwise say so; those that they refused need not.
func TestArguments(t *testing.T) {
	const call = `{% for m in messages %}{% for c in m.tool_calls %}{% set f = c.function %}`
	const end = `{% endfor %}{% endfor %}`
	const text, object = `{"q":"<é>",  "n": 2}`, `{"q": "<é>", "n": 2}`
	for _, c := range []struct {
		template, text, object string // of a row with the text, and of one with the object
		others                 string // what earlier programs wrote otherwise
	}{
		{`{{ f.arguments }}`, text, `{'q': '<é>', 'n': 2}`, "text"},
		{`{{ f.name + f['arguments'] }}`, "f" + text, "error", ""},                                                               // DeepSeek, functionary; both were refused
		{`{% if f.arguments is string %}{{ f.arguments }}{% else %}{{ f.arguments | tojson }}{% endif %}`, text, object, "text"}, // Qwen 3, Granite 4
		{`{% if f.arguments is mapping %}{% for k, v in f.arguments | dictsort %}{{ k }}:{{ v }};{% endfor %}{% elif f.arguments is string %}{{ f.arguments }}{% endif %}`, text, "n:2;q:<é>;", "text"}, // Gemma 4
		{`{% set a = f.arguments %}{% if a is not string %}{% set a = a | tojson | safe %}{% endif %}{{ f.name + a }}`, "f" + text, "f" + object, "text"},                                               // Ministral 3
		{`{{ f.arguments | tojson }}`, object, object, ""}, // Llama 3, Qwen 2.5
		{`{{ {"name": f.name, "arguments": f.arguments} | tojson }}`, `{"name": "f", "arguments": ` + object + `}`, `{"name": "f", "arguments": ` + object + `}`, ""}, // Mistral
		{`{% for k, v in f.arguments | items %}{{ k }}={{ v }};{% endfor %}`, "q=<é>;n=2;", "q=<é>;n=2;", ""},                                                         // Qwen 3.5
		{`{% for k, v in f.arguments.items() %}{{ k }}={{ v }};{% endfor %}`, "q=<é>;n=2;", "q=<é>;n=2;", ""},                                                         // LFM 2.5
		{`{{ f.arguments.q }}`, "<é>", "<é>", ""},
		{`{{ "'" | safe + f.name + "'" + f.arguments.q }}`, "'f&#39;&lt;é&gt;", "'f&#39;&lt;é&gt;", "text object"}, // functionary
		{`{{ f.name | safe }}`, "f", "f", ""},
	} {
		e := encoder(t, call+c.template+end, Options{Learn: []string{}})
		for kind, want := range map[string]string{"text": c.text, "object": c.object} {
			arguments := text
			if kind == "text" {
				quoted, err := json.Marshal(text)
				require.NoError(t, err)
				arguments = string(quoted)
			}
			line := `{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": ` + arguments + `}}]}]}`
			talk, err := FromRow(row(t, line), "")
			require.NoError(t, err)
			made, err := e.template.Render(talk.Messages, &talk.Variables, false, time.Time{})
			if want == "error" {
				assert.Error(t, err, c.template)
				continue
			}
			require.NoError(t, err, c.template)
			assert.Equal(t, want, made.Text, c.template)
			_, _, err = e.Encode(talk)
			require.NoError(t, err)
			assert.Equal(t, strings.Contains(c.others, kind), talk.Otherwise != "", "%s of %s: %s", c.template, kind, talk.Otherwise)
		}
	}
}
