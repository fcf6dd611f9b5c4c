package template

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

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
