package template

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// space is what Python calls it.
func space(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }

func trimSpace(s string) string { return strings.TrimFunc(s, space) }

// ascii says whether characters are bytes.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// length is that in characters.
func (r *run) length(s string) int {
	r.step(len(s) / 64)
	return utf8.RuneCountInString(s)
}

// place is the byte at which a character begins.
func place(s string, character int) int {
	if character <= 0 {
		return 0
	}
	for i := range s {
		if character == 0 {
			return i
		}
		character--
	}
	return len(s)
}

// characters are those of a text, counted as read.
func (r *run) characters(s string) []rune {
	r.made(4 * len(s))
	return []rune(s)
}

// find is the byte at which a part begins, or -1.
func (r *run) find(s, part string) int {
	r.step(len(s) / 64)
	return strings.Index(s, part)
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

// simpleEscapes are those of one letter.
var simpleEscapes = map[byte]string{
	'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescaped reads what stands between quotes as Python does: a backslash before anything else stands for itself.
func (l *lexer) unescaped(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		plain, ok := simpleEscapes[s[i]]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		switch {
		case ok:
			b.WriteString(plain)
		case digits > 0:
			c := l.codePoint(s[i:], digits)
			i += digits
			if utf16.IsSurrogate(c) && strings.HasPrefix(s[i+1:], `\u`) { // Python keeps the halves of a pair apart; nobody writes that
				if pair := utf16.DecodeRune(c, l.codePoint(s[i+2:], 4)); pair != utf8.RuneError {
					c = pair
					i += 6
				}
			}
			b.WriteRune(c)
		case s[i] >= '0' && s[i] <= '7':
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			c, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			b.WriteRune(rune(c))
			i += n - 1
		case s[i] == 'N':
			l.fail(`found \N in a text, wanted \u and the number of the character`)
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// codePoint reads the digits after the letter of an escape.
func (l *lexer) codePoint(s string, digits int) rune {
	if len(s) <= digits {
		l.fail(`found \%s in a text, wanted %d digits after \%c`, s, digits, s[0])
	}
	c, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	if err != nil || c > utf8.MaxRune {
		l.fail(`found \%s in a text, wanted a character's number in %d digits`, s[:1+digits], digits)
	}
	return rune(c)
}
