package template

import (
	"strings"
	"unicode"
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
