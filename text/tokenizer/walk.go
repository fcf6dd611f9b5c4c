package tokenizer

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// walker goes through JSON that is known to be valid, once. encoding/json goes through it twice a level, which took most of the time
// that opening a vocabulary of 256,000 tokens takes.
type walker struct {
	raw []byte
	at  int
}

// next is the next byte that is not white space; 0 at the end.
func (w *walker) next() byte {
	for ; w.at < len(w.raw); w.at++ {
		switch c := w.raw[w.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// value is the next value as it stands.
func (w *walker) value() json.RawMessage {
	first, depth := w.next(), 0
	begin := w.at
	switch first {
	case '"':
		w.text()
		return w.raw[begin:min(w.at, len(w.raw))]
	case '{', '[':
		for more := true; more && w.at < len(w.raw); {
			switch w.raw[w.at] {
			case '"':
				w.text()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
				more = depth > 0
			}
			w.at++
		}
		return w.raw[begin:min(w.at, len(w.raw))]
	}
	if n := bytes.IndexAny(w.raw[begin:], " \t\r\n,:}]"); n >= 0 {
		w.at += n
	} else {
		w.at = len(w.raw)
	}
	return w.raw[begin:w.at]
}

// text goes over a text that begins here.
func (w *walker) text() {
	for w.at++; w.at < len(w.raw) && w.raw[w.at] != '"'; w.at++ {
		if w.raw[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

// members visits the members of an object.
func members(raw json.RawMessage, visit func(name string, value json.RawMessage) error) error {
	w := &walker{raw: raw}
	for w.enter('{'); w.next() != '}' && w.at < len(raw); {
		name := ""
		if err := unquote(w.value(), &name); err != nil {
			return err
		}
		w.next()
		if err := visit(name, w.value()); err != nil {
			return err
		}
	}
	return nil
}

// elements visits those of a list.
func elements(raw json.RawMessage, visit func(i int, value json.RawMessage) error) error {
	w := &walker{raw: raw}
	w.enter('[')
	for i := 0; w.next() != ']' && w.at < len(raw); i++ {
		if err := visit(i, w.value()); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) enter(open byte) {
	if w.next() == open {
		w.at++
	}
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
