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
		"a\n{{ 'x' * 1000000000 }}":                                                                              "line 2: more than 1048576 bytes of texts and lists on the way, wanted at most so many (limit: bytes made)",
		"{{ 'x' * 9000000000000000000 }}":                                                                        "limit: bytes made",
		"\n\n{{ range(1000000000) }}":                                                                            "line 3: range: found 1000000000 numbers, wanted at most 100000 (limit: range)",
		"{{ 'a' | replace('', 'b' * 1000) | replace('b', 'b' * 1000) }}":                                         "limit: bytes made",
		"{{ ('x,' * 60000).split(',') | length }}":                                                               "limit: bytes made",
		"{{ 'x' | indent(1000000000, true) }}":                                                                   "limit: bytes made",
		"{{ [1] | tojson(indent=1000000000) }}":                                                                  "limit: bytes made",
		"{{ range(9000000000000000000, -9000000000000000000, -1) }}":                                             "limit: range",
		"{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}":                             "limit: ",
		"{% for a in range(9999) %}{{ 'x' * 500 }}{% endfor %}":                                                  "limit: ",
		"{% for a in range(600) %}{{ 'x' * 100 }}{% endfor %}":                                                   "more than 50000 bytes of text, wanted at most so many (limit: output)",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}":                                                        "limit: depth",
		"{% set n = namespace(a=[1]) %}{% for i in range(500) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}": "limit: depth",
		"{% set n = namespace(a=[1]) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a }}":  "limit: ",
		"{% set n = namespace(a=[1], b=[1]) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}": "limit: steps",
		"{% set n = namespace(a=[1]) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% endfor %}{{ n.a | tojson }}":                                "limit: ",
		"{{ " + deep("(", "1", ")") + " }}":              "limit: nesting",
		"{{ " + deep("[", "1", "]") + " }}":              "limit: nesting",
		"{{ " + deep("not ", "1", "") + " }}":            "limit: nesting",
		"{{ " + deep("-", "1", "") + " }}":               "limit: nesting",
		deep("{% if 1 %}", "", "{% endif %}"):            "limit: nesting",
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
	return parsed.Render(&Object{}, Options{limits: limits{Steps: 200_000, Output: 50_000, Made: 1 << 20}})
}

// Errors name the line of what is wrong, and what could be meant.
func TestErrors(t *testing.T) {
	for source, says := range map[string]string{
		"a\nb{{ x | trmi }}":                   `chat/template: case: line 2: found the filter "trmi", wanted one that is known, did you mean "trim"?`,
		"\n\n{% if x is definde %}{% endif %}": `line 3: found the test "definde", wanted one that is known, did you mean "defined"?`,
		"{% generatoin %}":                     `found the statement "generatoin", wanted one of if, for, set, macro, call, filter, break, continue, generation, did you mean "generation"?`,
		"{% if x %}\n{% edif %}":               `line 2: found the statement "edif", wanted elif or else or endif, or one of`,
		"\n{% if x %}\n":                       `line 2: "if" is not closed, wanted {% elif %} or {% else %} or {% endif %}`,
		"\n{{ x":                               `line 2: {{ is not closed, wanted }}`,
		"{{ x }":                               `line 1: found "}", which nothing opens`,
		"{% break %}":                          `found "break" outside of a loop`,
		"\n\n{{ x.y.z }}":                      `line 3: 'x' is undefined`,
		"{% macro m() %}\n{{ 1 + 'a' }}{% endmacro %}\n\n{{ m() }}": `line 2: unsupported operand type(s) for +: 'int' and 'str'`,
		"{{ [1, 2] | map('uper') | list }}":                         `found the filter "uper", wanted one that is known, did you mean "upper"?`,
		"{{ raise_exception() }}":                                   `raise_exception: found no argument "message", wanted one`,
		"{{ strftime_now('%Q') }}":                                  `strftime_now: found "%Q", wanted one of %%, %-I, %-d, %-m, %A, %B,`,
		"{{ strftime_now('%') }}":                                   `strftime_now: found "%", wanted one of`,
	} {
		_, err := rendered(source)
		assert.ErrorContains(t, err, says, source)
	}
	// What Jinja2 has and no published template uses is named too, and never a text.
	for source, says := range map[string]string{
		"{{ x |\ncenter(9) }}":      `line 1: found the filter "center", wanted one that is known`,
		"{{ '%s' % 'a' }}":          `unsupported operand type(s) for %: 'str' and 'str'`,
		"{{ 'a'.rsplit('b') }}":     `'str object' has no attribute 'rsplit', did you mean "split"?`,
		"{{ '{}'.format(1) }}":      `'str object' has no attribute 'format'`,
		"{{ [1].index(1) }}":        `'list object' has no attribute 'index'`,
		"{{ 1 is divisibleby(2) }}": `found the test "divisibleby", wanted one that is known`,
		"{{ cycler(1) }}":           `'cycler' is undefined`,
		"{{ 1 < 2 < 3 }}":           `found "<", wanted }}`,
		"{{ dict({}) }}":            `dict: found a value without a name, wanted name=value`,
		"{{ 2 ** 3 }}":              `found "**", wanted }}`,
		"{{ dict(**{}) }}":          `found "**", wanted an expression`,
		"{{ 7.5 // 2 }}":            `found // of a float, wanted integers`,
		"{{ 0x1f }}":                `found "x1f", wanted }}`,
		"{{ {none: 1} }}":           `found 'NoneType' for a key of a dict, wanted a str or int`,
		"{% for a in [1] %}{{ loop.depth }}{% endfor %}": `found the attribute "loop.depth", wanted one that is known`,
		"{% for a in [1] recursive %}{% endfor %}":       `found "recursive", wanted %}`,
		"{% for (a, b) in [] %}{% endfor %}":             `found "(", wanted name`,
		"{% macro m() %}{% endmacro %}{{ m(1) }}":        `macro 'm' takes not more than 0 argument(s)`,
		"{% macro m() %}{% endmacro %}{{ m }}":           `found 'Macro', wanted a value that can be written`,
		"{{ {}.keys() }}":                                `found 'dict_keys', wanted a value that can be written`,
		"{{ namespace() }}":                              `found 'Namespace', wanted a value that can be written`,
		`{{ '\N{DEGREE SIGN}' }}`:                        `found "\\N{DEGREE " in a text, wanted \x and two digits`,
		`{{ '\u12' }}`:                                   `found "\\u12" in a text, wanted \x and two digits, \u and four`,
		"{{ 9223372036854775807 + 1 }}":                  `9223372036854775807 + 1 is an integer of more than 64 bits, wanted a smaller one`,
		"{{ -9223372036854775807 - 2 }}":                 `-9223372036854775807 - 2 is an integer of more than 64 bits`,
		"{{ 3037000500 * 3037000500 }}":                  `3037000500 * 3037000500 is an integer of more than 64 bits`,
		"{{ (-9223372036854775807 - 1) // -1 }}":         `-9223372036854775808 // -1 is an integer of more than 64 bits`,
		"{{ (-9223372036854775807 - 1) * -1 }}":          `is an integer of more than 64 bits`,
		"{{ -1 * (-9223372036854775807 - 1) }}":          `is an integer of more than 64 bits`,
		"{{ 9223372036854775808 }}":                      `found the number 9223372036854775808, wanted an integer of 64 bits`,
		"{{ 1e30 | int }}":                               `int: found 1e+30, wanted an integer of at most 64 bits`,
	} {
		_, err := rendered(source)
		assert.ErrorContains(t, err, says, source)
	}
	big, err := Decode([]byte(`{"n": [12345678901234567890, -12345678901234567890]}`))
	require.NoError(t, err)
	for source, says := range map[string]string{
		"{{ n[0] + 1 }}":    `unsupported operand type(s) for +: 'int of more than 64 bits' and 'int'`,
		"{{ n[0] < n[1] }}": `'<' not supported between instances of 'int of more than 64 bits' and 'int of more than 64 bits'`,
		"{{ 'a' * n[0] }}":  `unsupported operand type(s) for *: 'str' and 'int of more than 64 bits'`,
		"{{ range(n[0]) }}": `argument 0 must be an int, found 'int of more than 64 bits'`,
		"{{ {n[0]: 'a'} }}": `found 'int of more than 64 bits' for a key of a dict`,
	} {
		parsed, err := Parse("case", source)
		require.NoError(t, err)
		_, err = parsed.Render(big.(*Object), Options{})
		assert.ErrorContains(t, err, says, source)
	}
	_, err = rendered("\n{{ raise_exception('not\nme') }}")
	var raised *RaisedError
	require.ErrorAs(t, err, &raised)
	assert.Equal(t, "chat/template: case: line 2: the template refuses the conversation: not me", raised.Error())
	assert.Equal(t, RaisedError{Name: "case", Line: 2, Message: "not\nme"}, *raised)
}

// A template is run by several goroutines at once, and changes nothing that it is given.
func TestRendersAlike(t *testing.T) {
	parsed, err := Parse("case", "{% for m in l %}{% set x = loop.index %}{{ x ~ m }}{% endfor %}{% set l = 1 %}{{ l }}{% set up %}q{% endset %}{{ up | upper }}")
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
