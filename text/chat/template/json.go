package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"gputrain/internal/stranger"
)

// deepestJSON bounds what Decode takes, as encoding/json bounds what it reads.
const deepestJSON = 1000

// Decode reads JSON as a value for templates: objects keep the order of their keys, of a key that comes twice the last
// value counts. Half of a surrogate pair is a *SurrogateError.
func Decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	value, err := decode(d, 0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("found more after the value, wanted its end")
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("ends in the middle of a value")
	}
	if err != nil {
		return nil, stranger.Told(raw, err)
	}
	if err := CheckSurrogates(raw); err != nil {
		return nil, err
	}
	return value, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	if depth > deepestJSON {
		return nil, fmt.Errorf("values are nested more than %d deep, wanted at most so many", deepestJSON)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return decodeNumber(t), nil
	case json.Delim:
		if t == '[' {
			list := []any{}
			for d.More() {
				value, err := decode(d, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, value)
			}
			_, err := d.Token()
			return list, err
		}
		o := &Object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.Set(key.(string), value)
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil // nil, bool or string
}

func decodeNumber(n json.Number) any {
	if strings.ContainsAny(string(n), ".eE") {
		f, _ := strconv.ParseFloat(string(n), 64) // infinite where it is too large, as in Python
		return f
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	return n
}

// A SurrogateError is half of a surrogate pair in JSON, which encoding/json makes U+FFFD without a word.
type SurrogateError struct{ Found string }

// Error names it.
func (e *SurrogateError) Error() string {
	return fmt.Sprintf("half of a surrogate pair (%s), which is no character", e.Found)
}

// CheckSurrogates refuses the first escape in JSON that is half of a pair.
func CheckSurrogates(raw []byte) error {
	if all := halves(raw); len(all) > 0 {
		return &SurrogateError{string(raw[all[0] : all[0]+6])}
	}
	return nil
}

// ReplaceSurrogates is JSON with U+FFFD in place of halves of pairs.
func ReplaceSurrogates(raw []byte) []byte {
	all := halves(raw)
	if len(all) > 0 {
		raw = slices.Clone(raw)
	}
	for _, at := range all {
		copy(raw[at:], `\ufffd`)
	}
	return raw
}

// halves are where escapes in JSON, each of six bytes, are halves of pairs.
func halves(raw []byte) (all []int) {
	for at := 0; ; {
		next := bytes.IndexByte(raw[at:], '\\')
		if next < 0 {
			return all
		}
		at += next
		first := escaped(raw[at:])
		switch {
		case first < 0:
			at += min(2, len(raw)-at)
			continue
		case !utf16.IsSurrogate(first):
		case utf16.DecodeRune(first, escaped(raw[at+6:])) != utf8.RuneError:
			at += 6
		default:
			all = append(all, at)
		}
		at += 6
	}
}

// escaped is what \uXXXX stands for at the beginning of JSON; -1 where there is something else.
func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
