package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gputrain/internal/jsonline"
	"gputrain/internal/stranger"
	"gputrain/internal/suggest"
)

// object is a JSON object, known to be valid, that is read field by field. It keeps the first error; a field that nothing has asked for is one, as
// it could change what a text means.
type object struct {
	where  string
	fields map[string]json.RawMessage
	asked  []string
	err    error
}

func newObject(where string, raw json.RawMessage) *object {
	o := &object{where: where}
	if !opens(raw, '{') {
		o.fail("found %.40s, wanted an object", raw)
		return o
	}
	o.fields = map[string]json.RawMessage{}
	if err := members(raw, func(name string, value json.RawMessage) error {
		o.fields[name] = value
		return nil
	}); err != nil {
		o.fail("%w", err)
	}
	return o
}

func (o *object) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: "+format, append([]any{o.where}, args...)...)
	}
}

// raw is a field as it stands; nil where it is absent or null.
func (o *object) raw(name string) json.RawMessage {
	o.asked = append(o.asked, name)
	raw := o.fields[name]
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil
	}
	return raw
}

// read decodes a field into a value; an absent one leaves the value as it is.
func (o *object) read(name string, into any) (there bool) {
	raw := o.raw(name)
	if raw == nil {
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		o.fail("%s: %w", name, stranger.Words(err))
	}
	return true
}

// must is read for a field that has to be there.
func (o *object) must(name string, into any) {
	if !o.read(name, into) {
		o.fail("%s: found nothing, wanted a value", name)
	}
}

func (o *object) flag(name string, otherwise bool) bool {
	o.read(name, &otherwise)
	return otherwise
}

// char reads a field that has to be one character.
func (o *object) char(name string) rune {
	text := ""
	o.must(name, &text)
	r, size := utf8.DecodeRuneInString(text)
	if size != len(text) || size == 0 {
		o.fail("%s: found %q, wanted one character", name, text)
	}
	return r
}

// one reads a field that has to be one of some names.
func (o *object) one(name string, known []string) string {
	text := ""
	o.must(name, &text)
	if !slices.Contains(known, text) {
		o.fail("%s: %w", name, unknown(text, known))
	}
	return text
}

// done is the first error, or that of a field that nothing has asked for.
func (o *object) done() error {
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if !slices.Contains(o.asked, name) {
			o.fail("field %w", unknown(name, o.asked))
		}
	}
	return o.err
}

// unknown is the error of a name that is not one of those known.
func unknown(found string, known []string) error {
	return fmt.Errorf("found %q, wanted one of %s%s", found, strings.Join(known, ", "), suggest.DidYouMean(found, known))
}

// deepest bounds lists in lists: each level is held as a whole while those in it are read.
const deepest = 8

// parts reads a list of objects with a type, such as the members of a Sequence.
func parts[T any](o *object, name string, part func(where string, raw json.RawMessage) (T, error)) []T {
	if strings.Count(o.where, "[") >= deepest {
		o.fail("%s: found sequences in each other, wanted at most %d", name, deepest)
		return nil
	}
	var raws []json.RawMessage
	o.must(name, &raws)
	all := make([]T, 0, len(raws))
	for i, raw := range raws {
		p, err := part(fmt.Sprintf("%s.%s[%d]", o.where, name, i), raw)
		if err != nil {
			if o.err == nil {
				o.err = err
			}
			return nil
		}
		all = append(all, p)
	}
	return all
}

// typed reads the type of an object, which says what reads the rest.
func typed[T any](where string, raw json.RawMessage, kinds map[string]func(o *object) T) (value T, err error) {
	o := newObject(where, raw)
	if o.err != nil {
		return value, o.err
	}
	kind := o.one("type", slices.Sorted(maps.Keys(kinds)))
	if o.err != nil {
		return value, o.err
	}
	value = kinds[kind](o)
	return value, o.done()
}

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
