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
