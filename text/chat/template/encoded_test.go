package template

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An object that a row has as a text in JSON is the text, byte for byte, where Jinja2 takes a str, and the object where
// a str would fail, print what no model is to learn, or be quoted a second time.
func TestEncoded(t *testing.T) {
	const written = `{"city":"Oslo",  "n": 2, "title": "<T>"}`
	args, err := Encoded(written)
	require.NoError(t, err)
	variables := &Object{}
	call := &Object{}
	call.Set("name", "f")
	call.Set("arguments", args)
	variables.Set("a", args)
	variables.Set("c", call)
	for source, want := range map[string]string{
		`{{ a }}`:               written,
		`{{ 'x' + a + 'y' }}`:   "x" + written + "y",
		`{{ 'x' ~ a }}`:         "x" + written,
		`{{ [a, '!'] | join }}`: written + "!",
		`{{ a | trim | replace('<T>', 't') }}{{ a.replace('<T>', 't').upper() | length }}`: `{"city":"Oslo",  "n": 2, "title": "t"}38`,
		`{{ a[0] }}{{ a[-1:] }}{{ a | length }}{{ a == '{}' }}{{ 'Oslo' in a }}`:           `{}40FalseTrue`,
		`{{ c }}`: `{'name': 'f', 'arguments': '` + written + `'}`,
		`{{ a is string }}{{ a is iterable }}{{ a is none }}{{ a is defined }}`: "TrueTrueFalseTrue",
		`{% if a %}yes{% endif %}`: "yes",
		`{{ (a | safe) + '<' }}`:   written + "&lt;",
		`{{ '' | safe + a }}`:      `{&#34;city&#34;:&#34;Oslo&#34;,  &#34;n&#34;: 2, &#34;title&#34;: &#34;&lt;T&gt;&#34;}`,
		`{% if a is string %}{{ a }}{% else %}{{ a | tojson }}{% endif %}`: written,

		`{{ a | tojson }}`: `{"city": "Oslo", "n": 2, "title": "<T>"}`,
		`{{ c | tojson }}`: `{"name": "f", "arguments": {"city": "Oslo", "n": 2, "title": "<T>"}}`,
		`{% for k, v in a.items() %}{{ k }}={{ v }};{% endfor %}`:                          "city=Oslo;n=2;title=<T>;",
		`{% for k, v in a | items %}{{ k }}={{ v }};{% endfor %}`:                          "city=Oslo;n=2;title=<T>;",
		`{% for k, v in a | dictsort(reverse=true) %}{{ k }};{% endfor %}`:                 "title;n;city;",
		`{% for k in a %}{{ k }}={{ a[k] }};{% endfor %}`:                                  "city=Oslo;n=2;title=<T>;",
		`{{ a.city }}{{ a['n'] }}{{ a.title }}{{ a.get('nope', 5) }}{{ a.keys() | list }}`: "Oslo2<T>5['city', 'n', 'title']",
		`{{ [c] | map(attribute='arguments.city') | first }}`:                              "Oslo",
		`{{ a.title() | length }}{{ a.nope is defined }}`:                                  "40False",
		`{% if a is mapping %}{{ a | tojson }}{% else %}{{ a }}{% endif %}`:                `{"city": "Oslo", "n": 2, "title": "<T>"}`,

		// A template that asks for both writes texts as they stand.
		`{% if a is mapping %}{{ a | tojson }}{% elif a is string %}{{ a }}{% endif %}`:                                                   written,
		`{% if c.arguments is mapping or c['arguments'] is not string %}{{ c.arguments | tojson }}{% else %}{{ c.arguments }}{% endif %}`: written,
		`{% if c.name is string and c.arguments is mapping %}{{ c.arguments | tojson }}{% endif %}`:                                       `{"city": "Oslo", "n": 2, "title": "<T>"}`,
	} {
		parsed, err := Parse("case", source)
		require.NoError(t, err, source)
		made, err := parsed.Render(variables, Options{})
		require.NoError(t, err, source)
		assert.Equal(t, want, made.Text, source)
	}
	for source, is := range map[string]bool{"": true, "x": true, `["a"]`: true, `{"a"`: false, `{} {}`: false} {
		value, err := Encoded(source)
		if assert.Equal(t, is, err == nil, source) && is {
			assert.Equal(t, source, value)
		}
	}
	made, some := parsedObjects([]any{call})
	assert.True(t, some)
	assert.Equal(t, "an object", Kind(field(made.([]any)[0], "arguments")))
	made, some = parsedObjects(written)
	assert.False(t, some)
	assert.Equal(t, written, made)
}
