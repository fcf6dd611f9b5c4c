// Package jsonline goes over JSON once, without making values of it: a log has a million lines, and encoding/json takes most of the time that there is to
// read them.
package jsonline

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Members gives the members of an object with their keys, or the elements of an array without, as they stand in the text. It returns whether the text
// is such JSON; where it is not, members may have been given.
func Members(text []byte, use func(key, value []byte)) bool { return each(text, false, use) }

// Known is Members of a text that is known to be JSON.
func Known(text []byte, use func(key, value []byte)) { each(text, true, use) }

func each(text []byte, known bool, use func(key, value []byte)) bool {
	rest := skip(text)
	if len(rest) == 0 || rest[0] != '{' && rest[0] != '[' {
		return false
	}
	closing := rest[0] + 2 // of both
	if rest = skip(rest[1:]); len(rest) > 0 && rest[0] == closing {
		return len(skip(rest[1:])) == 0
	}
	for {
		var key []byte
		if closing == '}' {
			if len(rest) == 0 || rest[0] != '"' {
				return false
			}
			n := quoted(rest)
			if n == 0 {
				return false
			}
			if key, rest = unquoted(rest[:n]), skip(rest[n:]); len(rest) == 0 || rest[0] != ':' {
				return false
			}
			rest = skip(rest[1:])
		}
		n := length(rest, known)
		if n == 0 {
			return false
		}
		use(key, rest[:n])
		if rest = skip(rest[n:]); len(rest) == 0 || rest[0] != ',' {
			return len(rest) > 0 && rest[0] == closing && len(skip(rest[1:])) == 0
		}
		rest = skip(rest[1:])
	}
}

// skip leaves out space.
func skip(text []byte) []byte {
	for i, c := range text {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return text[i:]
		}
	}
	return nil
}

// length is the length of the value that a text begins with; 0: there is none.
func length(text []byte, known bool) int {
	if len(text) == 0 {
		return 0
	}
	switch c := text[0]; {
	case c == '"':
		return quoted(text)
	case c == '{' || c == '[':
		return nested(text, known)
	case c == '-' || c >= '0' && c <= '9':
		return number(text)
	}
	for _, word := range []string{"true", "false", "null"} {
		if len(text) >= len(word) && string(text[:len(word)]) == word {
			return len(word)
		}
	}
	return 0
}

// number is the length of a number.
func number(text []byte) int {
	i := 0
	is := func(a, b byte) bool { return i < len(text) && (text[i] == a || text[i] == b) }
	digits := func() bool {
		from := i
		for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		}
		return i > from
	}
	if is('-', '-') {
		i++
	}
	if is('0', '0') {
		i++
	} else if !digits() {
		return 0
	}
	if is('.', '.') {
		if i++; !digits() {
			return 0
		}
	}
	if is('e', 'E') {
		if i++; is('+', '-') {
			i++
		}
		if !digits() {
			return 0
		}
	}
	return i
}

// quoted is the length of a string.
func quoted(text []byte) int {
	escaped := false
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' && escaped && !json.Valid(text[:i+1]):
			return 0
		case c == '"':
			return i + 1
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			return 0
		}
	}
	return 0
}

// nested is the length of an object or an array.
func nested(text []byte, known bool) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			n := quoted(text[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				if !known && !json.Valid(text[:i+1]) {
					return 0
				}
				return i + 1
			}
		}
	}
	return 0
}

// unquoted is what a string says.
func unquoted(text []byte) []byte {
	if plain := text[1 : len(text)-1]; bytes.IndexByte(plain, '\\') < 0 && utf8.Valid(plain) {
		return plain
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		panic(err) // valid
	}
	return []byte(s)
}
