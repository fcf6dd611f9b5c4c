package template

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each of these would run for hours, take all memory or overflow the stack. Each ends at a limit that its error names.
func TestLimits(t *testing.T) {
	deep := func(open, inside, closed string) string {
		return strings.Repeat(open, 300) + inside + strings.Repeat(closed, 300)
	}
	for source, says := range map[string]string{
		"a\n{{ 'x' * 10**9 }}":   "line 2: more than 1048576 bytes of texts and lists on the way, wanted at most so many (limit: bytes made)",
		"{{ [1] * 10**12 }}":     "limit: bytes made",
		"{{ 'x' * 10**40 }}":     "limit: bytes made",
		"\n\n{{ range(10**9) }}": "line 3: range: found 1000000000 numbers, wanted at most 100000 (limit: range)",
		"{{ 'a' | replace('', 'b' * 1000) | replace('b', 'b' * 1000) }}":             "limit: bytes made",
		"{{ ('x,' * 60000).split(',') | length }}":                                   "limit: bytes made",
		"{{ 'x' | center(10**9) }}":                                                  "limit: bytes made",
		"{{ 'x' | indent(10**9, true) }}":                                            "limit: bytes made",
		"{{ '%100000000s' % 'x' }}":                                                  "limit: bytes made",
		"{{ '{:>100000000}'.format('x') }}":                                          "limit: bytes made",
		"{{ 9 ** 99999 }}":                                                           "limit: integers",
		"{{ 10 ** 10000 * 10 ** 10000 }}":                                            "limit: integers",
		"{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}": "limit: ",
		"{% for a in range(9999) %}{{ 'x' * 500 }}{% endfor %}":                      "limit: ",
		"{% for a in range(600) %}{{ 'x' * 100 }}{% endfor %}":                       "more than 50000 bytes of text, wanted at most so many (limit: output)",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}":                            "limit: depth",
		"{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}":                    "limit: depth",
		"{% set n = namespace(a=[1]) %}{% for i in range(500) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}":                                        "limit: depth",
		"{% set n = namespace(a=[1]) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}":                                         "limit: ",
		"{% set n = namespace(a=[1], b=[1]) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}": "limit: steps",
		"{% set n = namespace(a=(1,)) %}{% for i in range(40) %}{% set n.a = (n.a, n.a) %}{% endfor %}{{ {n.a: 1} }}":                                   "limit: ",
		"{% set n = namespace(a=[1]) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a | tojson }}":                                "limit: ",
		"{% set n = namespace() %}{% set n.n = n %}{{ n }}":                                                                                             "limit: depth",
		"{{ " + deep("(", "1", ")") + " }}":              "limit: nesting",
		"{{ " + deep("[", "1", "]") + " }}":              "limit: nesting",
		"{{ " + deep("not ", "1", "") + " }}":            "limit: nesting",
		"{{ " + deep("-", "1", "") + " }}":               "limit: nesting",
		deep("{% if 1 %}", "", "{% endif %}"):            "limit: nesting",
		"{% set " + deep("(", "a", ")") + " = 1 %}":      "limit: nesting",
		"{{ 1" + strings.Repeat(" + 1", 3000) + " }}":    "limit: operators",
		"{{ a" + strings.Repeat("[0]", 3000) + " }}":     "limit: operators",
		"{{ a" + strings.Repeat(" | list", 3000) + " }}": "limit: operators",
		strings.Repeat(" ", longestSource+1):             "longer than 4 MiB",
	} {
		made, err := rendered(source)
		require.Error(t, err, "%.200s", source)
		if !assert.ErrorContains(t, err, says, "%.200s", source) {
			t.Log(made)
		}
		assert.NotContains(t, err.Error(), "\n")
	}
}

func rendered(source string) (*Rendering, error) {
	parsed, err := Parse("case", source)
	if err != nil {
		return nil, err
	}
	return parsed.Render(&Object{}, Options{Limits: Limits{Steps: 200_000, Output: 50_000, Made: 1 << 20}})
}

// Errors name the line of what is wrong, and what could be meant.
func TestErrors(t *testing.T) {
	for source, says := range map[string]string{
		"a\nb{{ x | trmi }}":                   `chat/template: case: line 2: found the filter "trmi", wanted one that is known, did you mean "trim"?`,
		"\n\n{% if x is definde %}{% endif %}": `line 3: found the test "definde", wanted one that is known, did you mean "defined"?`,
		"{% generatoin %}":                     `found the statement "generatoin", wanted one of if, for, set, macro, call, filter, with, break, continue, generation, raw, print, did you mean "generation"?`,
		"{% if x %}\n{% edif %}":               `line 2: found the statement "edif", wanted elif or else or endif, or one of`,
		"\n{% if x %}\n":                       `line 2: "if" is not closed, wanted {% elif %} or {% else %} or {% endif %}`,
		"\n{{ x":                               `line 2: {{ is not closed, wanted }}`,
		"{{ x }":                               `line 1: found "}", which nothing opens`,
		"{% break %}":                          `found "break" outside of a loop`,
		"\n\n{{ x.y.z }}":                      `line 3: 'x' is undefined`,
		"{% macro m() %}\n{{ 1 + 'a' }}{% endmacro %}\n\n{{ m() }}": `line 2: unsupported operand type(s) for +: 'int' and 'str'`,
		"{{ [1, 2] | map('uper') | list }}":                         `found the filter "uper", wanted one that is known, did you mean "upper"?`,
		"{{ raise_exception() }}":                                   `raise_exception: found no argument "message", wanted one`,
		"{{ strftime_now('%Q') }}":                                  `strftime_now: found %Q, wanted a directive such as %d, %b or %Y`,
	} {
		_, err := rendered(source)
		assert.ErrorContains(t, err, says, source)
	}
	_, err := rendered("\n{{ raise_exception('not\nme') }}")
	var raised *RaisedError
	require.ErrorAs(t, err, &raised)
	assert.Equal(t, "chat/template: case: line 2: the template refuses the conversation: not me", raised.Error())
	assert.Equal(t, RaisedError{Name: "case", Line: 2, Message: "not\nme"}, *raised)
}

// A template is run by several goroutines at once, and changes nothing that it is given.
func TestRendersAlike(t *testing.T) {
	parsed, err := Parse("case", "{% for m in l %}{% set x = loop.index %}{{ x ~ m }}{% endfor %}{% set l = 1 %}{{ l }}{% set up | upper %}q{% endset %}{{ up }}")
	require.NoError(t, err)
	o := &Object{}
	o.Set("l", []any{"a", "b"})
	done := make(chan string)
	for range 8 {
		go func() {
			made, err := parsed.Render(o, Options{})
			if err != nil {
				done <- err.Error()
				return
			}
			done <- made.Text
		}()
	}
	for range 8 {
		assert.Equal(t, "1a2b1Q", <-done)
	}
	assert.Equal(t, []string{"l"}, o.Keys())
}
