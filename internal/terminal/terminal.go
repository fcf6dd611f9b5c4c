// Package terminal makes text of others fit for a terminal, which takes some characters for commands: to move, to write a title, to turn text around.
package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Most is how many bytes Text has at most.
const Most = 8 << 10

// Text is a message as a terminal may have it: Visible, and where it is longer than Most without its middle, which is told.
func Text(s string) string { return cut(Visible(cut(s))) }

// Visible is a text whose characters are all seen: its lines and tabs stay, and any other character that is not seen, or is no UTF-8, is written as in a Go
// string: \x1b.
func Visible(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var out strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || hidden(r) {
			quoted := strconv.QuoteToASCII(s[:n])
			out.WriteString(quoted[1 : len(quoted)-1])
		} else {
			out.WriteString(s[:n])
		}
		s = s[n:]
	}
	return out.String()
}

// Shown is a character of a text that a model has made, as a terminal may have it: U+FFFD stands for one that is not seen, but for those that join
// what is around them, as emoji and Persian have them.
func Shown(r rune) rune {
	const nonJoiner, joiner = '\u200c', '\u200d'
	if hidden(r) && r != joiner && r != nonJoiner {
		return utf8.RuneError
	}
	return r
}

// Writer writes messages, each with one Write, as Text has them.
type Writer struct{ To io.Writer }

// Write writes a message.
func (w Writer) Write(message []byte) (int, error) {
	text, line := strings.CutSuffix(string(message), "\n")
	if text = Text(text); line {
		text += "\n"
	}
	_, err := io.WriteString(w.To, text)
	return len(message), err
}

// Name is a name that a file gives, as a line or a table shows it: quoted where it has what is not seen.
func Name(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// hidden tells characters that are not seen: controls, what turns text around, parts of lines, what Unicode has not given a meaning.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' && r != '\t' }

// cut leaves out the middle of a text that is longer than Most. Its begin says what failed, its end why.
func cut(s string) string {
	if len(s) <= Most {
		return s
	}
	const room = 64 // for the words in the middle
	begin, end := s[:Most*2/3], s[len(s)-Most/3+room:]
	for i := 1; i < utf8.UTFMax && !utf8.RuneStart(s[len(begin)]); i++ { // no character is cut
		begin = begin[:len(begin)-1]
	}
	for i := 1; i < utf8.UTFMax && !utf8.RuneStart(end[0]); i++ {
		end = end[1:]
	}
	return begin + fmt.Sprintf(" [%d bytes are left out] ", len(s)-len(begin)-len(end)) + end
}
