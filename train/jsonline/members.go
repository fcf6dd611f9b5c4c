// Package jsonline goes over a line of JSON as it stands, without making values of it: the logs of a run have a million lines, and decoding them by
// reflection is nearly all that it takes to read them.
package jsonline

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Members are the members of an object with their keys, or the elements of an array with none, as they stand in the text, which must be valid JSON.
// Anything else has none.
func Members(valid []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		rest := between(valid)
		if len(rest) == 0 || rest[0] != '{' && rest[0] != '[' {
			return
		}
		object := rest[0] == '{'
		for rest = between(rest[1:]); rest[0] != '}' && rest[0] != ']'; rest = between(rest) {
			var key []byte
			if object {
				n := length(rest)
				key, rest = unquoted(rest[:n]), between(rest[n:])
			}
			n := length(rest)
			if !yield(key, rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// between leaves out what stands between keys and values.
func between(text []byte) []byte {
	for i, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return text[i:]
		}
	}
	return nil
}

// length is that of the value that a text begins with.
func length(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 || i+1 < len(text) && !ends(text[i+1]) {
				continue
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

// ends says whether a character stands behind a number or a word, and not in it.
func ends(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\r' || c == '\n'
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
