// Package characters finds what is no character in a text, bytes that are not UTF-8 and halves of surrogate pairs in JSON, and puts U+FFFD in its place.
package characters

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A UTF8Error says which byte of a text is not UTF-8.
type UTF8Error struct {
	At   int64
	Byte byte
}

// Error names the byte.
func (e *UTF8Error) Error() string {
	return fmt.Sprintf("byte %d: found 0x%02X, wanted UTF-8", e.At, e.Byte)
}

// Check names the first byte that is not UTF-8; the text begins at byte begin of what was given.
func Check(text string, begin int64) error {
	if utf8.ValidString(text) {
		return nil
	}
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return &UTF8Error{begin + int64(i), text[i]}
		}
	}
	return nil
}

// Replaced is the text of bytes: for each longest part of what could be a character, and is none, there is one U+FFFD.
func Replaced(bytes []byte) string {
	text, _ := Replace(bytes, true)
	return text
}

// Replace is the text of bytes: for each longest part of what could be a character there is one U+FFFD, as in Rust and on the web.
// Unless these are the last bytes, a character that may go on is left as rest.
func Replace(bytes []byte, last bool) (text string, rest []byte) {
	var b strings.Builder
	for len(bytes) > 0 {
		r, size := utf8.DecodeRune(bytes)
		if r == utf8.RuneError && size == 1 {
			if size = begun(bytes); size == len(bytes) && !last && !utf8.FullRune(bytes) {
				return b.String(), bytes
			}
		}
		b.WriteRune(r)
		bytes = bytes[size:]
	}
	return b.String(), nil
}

// begun is the length of the longest beginning of a character, at least 1.
func begun(bytes []byte) int {
	for n := min(3, len(bytes)); n > 1; n-- {
		if !utf8.FullRune(bytes[:n]) {
			return n
		}
	}
	return 1
}
