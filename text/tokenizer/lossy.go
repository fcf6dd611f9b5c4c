package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Lossy is the text of bytes: for each longest part of what could be a character, and is none, there is one U+FFFD.
func Lossy(bytes []byte) string {
	text, _ := lossy(bytes, true)
	return text
}

// lossy is the text of bytes: for each longest part of what could be a character there is one U+FFFD, as in Rust and on the web.
// Unless these are the last bytes, a character that may go on is left as rest.
func lossy(bytes []byte, last bool) (text string, rest []byte) {
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
