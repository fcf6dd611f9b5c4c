package template

import (
	"errors"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzTemplate: whatever a template is, it ends within its limits with a text or an error that names a line.
func FuzzTemplate(f *testing.F) {
	for _, source := range []string{
		"{% for m in messages %}{{ loop.index ~ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
		"{% macro m(a, b=1) %}{{ caller(a) ~ b }}{% endmacro %}{% call(x) m(*[1], b=3) %}{{ x }}{% endcall %}",
		"{% set n = namespace(a=[1]) %}{% for i in range(9) %}{% set n.a = [n.a, n.a] %}{{ loop.previtem }}{% endfor %}{{ n.a | tojson(indent=2) }}",
		"{% generation %}{{ messages | map(attribute='content') | join('x') | replace('', 'é') }}{% endgeneration %}{{ {1: (2,)} | dictsort }}",
		"{{ -9223372036854775807 * 3 % 5 // 2 }}{{ 1.5e3 / 7 }}{{ 'aé😀'[::-1][1:3] | indent(2) | safe + '\\u00e9\\x41<' }}{{ 'a, b' | title | replace('a', 'b', 1) }}",
		"{{ messages | selectattr('role', 'in', ['user']) | list | length }}{{ [3, 1] | sort | unique | first }}{{ strftime_now('%-d %b %Y') }}",
		"{% set x %}{% filter upper | trim %}a{% endfilter %}{% endset %}{{- x.split('A', 1) | tojson }}{# c #}{{ raise_exception('no') }}",
	} {
		f.Add(source)
	}
	given, err := Decode([]byte(`{"messages": [{"role": "user", "content": "Hi é"}, {"role": "assistant", "content": [1, 2.5, null, {"a": true}]}], "s": "text"}`))
	if err != nil {
		f.Fatal(err)
	}
	o := Options{limits: limits{Steps: 20_000, Output: 10_000, Made: 200_000}, Now: time.Unix(1e9, 0).UTC()}
	f.Fuzz(func(t *testing.T, source string) {
		parsed, err := Parse("fuzz", source)
		var made *Rendering
		if err == nil {
			made, err = parsed.Render(given.(*Object), o)
		}
		var wrong *fault
		var raised *RaisedError
		switch {
		case errors.As(err, &wrong) && wrong.Line > 0, errors.As(err, &raised) && raised.Line > 0:
		case err != nil:
			t.Fatalf("an error without a line: %v", err)
		case len(made.Text) > o.limits.Output:
			t.Fatalf("%d bytes of text", len(made.Text))
		default:
			for _, g := range made.Generated {
				if g[0] < 0 || g[1] < g[0] || g[1] > utf8.RuneCountInString(made.Text) {
					t.Fatalf("generated %v", g)
				}
			}
		}
	})
}
