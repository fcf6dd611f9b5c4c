package template

import "slices"

// A markup is a text that was marked as safe, Markup of Python: what is joined to it is escaped and marked too. To write it, or to join it with ~,
// makes a plain text of it.
type markup string

// plain is a value without what it is besides a text.
func plain(v any) any {
	if s, ok := text(v); ok {
		return s
	}
	return v
}

// text is the text of what Python calls a str.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	case *encoded:
		return v.text, true
	}
	return "", false
}

// as marks what was made of a value as the value is.
func as(of, made any) any {
	if _, ok := of.(markup); !ok {
		return made
	}
	switch made := made.(type) {
	case string:
		return markup(made)
	case []any:
		for i, one := range made {
			made[i] = as(of, one)
		}
	case tuple:
		for i, one := range made {
			made[i] = as(of, one)
		}
	}
	return made
}

// mark is a text that is safe.
func (r *run) mark(s string) any {
	if r.earlier {
		return s
	}
	return markup(s)
}

// escaped is what markup takes of a value.
func (r *run) escaped(v any) markup {
	if m, ok := v.(markup); ok {
		return m
	}
	return markup(r.escape(r.str(v)))
}

// added is a + b of texts.
func (r *run) added(a, b any) any {
	_, left := a.(markup)
	_, right := b.(markup)
	if left || right {
		a, b = r.escaped(a), r.escaped(b)
	}
	s, _ := text(a)
	t, _ := text(b)
	r.made(len(s) + len(t))
	if left || right {
		return markup(s + t)
	}
	return s + t
}

// escapedArguments are those of the methods of a markup, by their places.
var escapedArguments = map[string]int{"replace": 1, "center": 1, "ljust": 1, "rjust": 1}

// markedMethod is a method of str as markup has it.
func markedMethod(of markup, name string, m *builtin) *function {
	return &function{name: name, call: func(r *run, a arguments) any {
		if place, ok := escapedArguments[name]; ok && place < len(a.list) {
			a.list = slices.Clone(a.list)
			a.list[place] = r.escaped(a.list[place])
		}
		if name == "join" && len(a.list) > 0 {
			all := r.copied(a.list[0])
			for i, one := range all {
				all[i] = r.escaped(one)
			}
			a.list = []any{all}
		}
		a.list = append([]any{of}, a.list...)
		return as(of, m.run(r, name, a))
	}}
}
