package tokenizer

import (
	"fmt"
	"strings"
)

// alphabet writes each byte as a character that can be seen, as GPT-2 does: printable Latin-1 stands for itself, the rest for U+0100 and up.
var alphabet = func() (chars [256]rune) {
	next := rune(0x100)
	for b := range chars {
		switch {
		case '!' <= b && b <= '~', 0xA1 <= b && b <= 0xAC, 0xAE <= b:
			chars[b] = rune(b)
		default:
			chars[b] = next
			next++
		}
	}
	return chars
}()

// written has the byte of each character of the alphabet.
var written = func() map[rune]byte {
	bytes := map[rune]byte{}
	for b, r := range alphabet {
		bytes[r] = byte(b)
	}
	return bytes
}()

// bytesOf is the text that a token of the alphabet stands for.
func bytesOf(token string) (string, bool) {
	var b strings.Builder
	for _, r := range token {
		c, ok := written[r]
		if !ok {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// asBytes writes a text in the alphabet.
func asBytes(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(alphabet[text[i]])
	}
	return b.String()
}

// byteLevel is a pre-tokenizer that writes each byte as a character of the alphabet. Where it is the last one, the model reads the
// bytes as they are, and nothing is written.
type byteLevel struct {
	prefix bool // a space is put in front of pieces that lack one
	words  bool // cut with GPT-2's pattern
	plain  bool // the model reads bytes
}

func readByteLevel(o *object) byteLevel {
	b := byteLevel{prefix: o.flag("add_prefix_space", true), words: o.flag("use_regex", true)}
	o.flag("trim_offsets", true) // says something as a post-processor alone
	return b
}

func (b byteLevel) split(s span, next func(span) error) error {
	if b.prefix && !strings.HasPrefix(s.text, " ") {
		if err := s.prepend(" "); err != nil {
			return fmt.Errorf("pre_tokenizer: ByteLevel: %w", err)
		}
	}
	to := next
	if !b.plain {
		to = func(s span) error {
			s, err := inAlphabet(s)
			if err != nil {
				return fmt.Errorf("pre_tokenizer: ByteLevel: %w", err)
			}
			return next(s)
		}
	}
	if !b.words {
		return to(s)
	}
	return split{pattern: gpt2, behavior: "Isolated"}.split(s, to)
}

func inAlphabet(s span) (span, error) {
	text := asBytes(s.text) // twice as long at most
	if err := s.may.grow(len(text) - len(s.text)); err != nil {
		return s, err
	}
	var from []extent
	if s.from != nil {
		for i := range len(s.text) {
			for range len(string(alphabet[s.text[i]])) {
				from = append(from, s.from[i])
			}
		}
	}
	return span{text: text, at: s.at, from: from, may: s.may}, nil
}
