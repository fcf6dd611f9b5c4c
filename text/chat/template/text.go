package template

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// space is what Python calls it.
func space(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

func trimSpace(s string) string { return strings.TrimFunc(s, space) }

// length is the number of characters.
func (r *run) length(s string) int {
	r.step(len(s) / 64)
	return utf8.RuneCountInString(s)
}

// place is the byte at which a character begins.
func place(s string, character int) int {
	for i := range s {
		if character <= 0 {
			return i
		}
		character--
	}
	return len(s)
}

// replace is Python's: an empty text is found before each character, and at the end.
func (r *run) replace(s, old, with string, n int) string {
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	r.step(len(s) / 64)
	if more := len(with) - len(old); more > 0 {
		r.times(more, int64(count))
	}
	r.made(len(s))
	return strings.Replace(s, old, with, n)
}

// join puts a text between others.
func (r *run) join(parts []string, between string) string {
	r.times(len(between), int64(len(parts)))
	for _, p := range parts {
		r.made(len(p))
	}
	return strings.Join(parts, between)
}

// lines cuts at whatever Python takes for the end of a line.
func lines(s string) (all []string) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	for s != "" {
		end := strings.IndexFunc(s, func(c rune) bool {
			return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
		})
		if end < 0 {
			return append(all, s)
		}
		all, s = append(all, s[:end]), s[end+place(s[end:], 1):]
	}
	return all
}

// unescaped reads what stands between quotes as Python does: a backslash before what it has no meaning for stands for
// itself.
func (l *lexer) unescaped(s string) string {
	var b strings.Builder
	for s != "" {
		if s[0] != '\\' {
			n := strings.IndexByte(s, '\\')
			if n < 0 {
				n = len(s)
			}
			b.WriteString(s[:n])
			s = s[n:]
			continue
		}
		c, _, rest, err := strconv.UnquoteChar(s, 0)
		switch {
		case err == nil:
			b.WriteRune(c)
			s = rest
		case strings.IndexByte(`"'`, s[1]) >= 0:
			b.WriteByte(s[1])
			s = s[2:]
		case s[1] == '\n':
			s = s[2:]
		case strings.IndexByte("xuUN01234567", s[1]) >= 0:
			l.fail("found %.10q in a text, wanted \\x and two digits, \\u and four, or \\U and eight of the number of a character", s)
		default:
			b.WriteByte('\\')
			s = s[1:]
		}
	}
	return b.String()
}

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
