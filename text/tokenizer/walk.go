package tokenizer

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"gputrain/internal/jsonline"
)

// members visits the members of an object, known to be valid JSON. encoding/json goes through a text twice a level, which took most of the time that opening
// a vocabulary of 256,000 tokens takes.
func members(raw json.RawMessage, visit func(name string, value json.RawMessage) error) (err error) {
	jsonline.Known(raw, func(name, value []byte) {
		if err == nil {
			err = visit(string(name), value)
		}
	})
	return err
}

// elements visits those of a list.
func elements(raw json.RawMessage, visit func(i int, value json.RawMessage) error) (err error) {
	i := 0
	jsonline.Known(raw, func(_, value []byte) {
		if err == nil {
			err = visit(i, value)
		}
		i++
	})
	return err
}

// unquote reads a text.
func unquote(raw json.RawMessage, into *string) error {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		*into = string(raw[1 : n-1])
		return nil
	}
	return json.Unmarshal(raw, into)
}

// opens says whether a value begins with a byte.
func opens(raw json.RawMessage, with byte) bool {
	return len(raw) > 0 && raw[0] == with
}
