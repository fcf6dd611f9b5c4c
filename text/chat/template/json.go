package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gputrain/internal/characters"
	"gputrain/internal/stranger"
)

// deepestJSON bounds what Decode takes, as encoding/json bounds what it reads.
const deepestJSON = 1000

// Decode reads JSON as a value for templates: objects keep the order of their keys, of a key that comes twice the last
// value counts. Half of a surrogate pair is a *characters.HalfError.
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
	if err := characters.CheckJSON(raw); err != nil {
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
