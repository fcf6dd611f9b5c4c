package template

import "strings"

// A markup is a text that the filter safe marked, Markup of Python: what + joins to it is escaped and marked too. To
// write it, or to join it with ~, makes a plain text of it.
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
	}
	return made
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// escaped is what a marked text takes of a value.
func (r *run) escaped(v any) string {
	s := r.str(v)
	if _, ok := v.(markup); ok {
		return s
	}
	r.made(5 * len(s))
	return escapes.Replace(s)
}

// added is a + b of texts.
func (r *run) added(a, b any) any {
	_, left := a.(markup)
	_, right := b.(markup)
	if left || right {
		s, t := r.escaped(a), r.escaped(b)
		r.made(len(s) + len(t))
		return markup(s + t)
	}
	s, _ := text(a)
	t, _ := text(b)
	r.made(len(s) + len(t))
	return s + t
}
