package texts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"gputrain/internal/characters"
)

// append appends the tokens of a field.
func (j *jsonl) append(d *document, raw json.RawMessage) (err error) {
	if raw[0] != '"' {
		d.form |= formOf("tokens")
		d.tokens, err = list(d.tokens, raw, j.vocab)
		return err
	}
	d.form |= formOf("text")
	if !j.text {
		return errors.New("found text, wanted a list of tokens, as data.tokens says")
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	if err := characters.CheckJSON(raw); err != nil {
		return err
	}
	if j.encode != nil {
		return j.encoded(d, text)
	}
	for i := range len(text) {
		d.tokens = append(d.tokens, uint32(text[i]))
	}
	return nil
}

// encoded appends text that a tokenizer encodes.
func (j *jsonl) encoded(d *document, text string) error {
	ids, err := j.encode(text)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if int(id) >= j.ofText {
			return fmt.Errorf("token %d: is %d, want less than the vocabulary %d (model.vocab)", i, id, j.ofText)
		}
	}
	d.tokens = append(d.tokens, marked(ids, 0)...)
	return nil
}

// A beyondError is a number of a list that is not below its limit.
type beyondError struct {
	at    int
	found int64
	limit int
}

func (e *beyondError) Error() string {
	return fmt.Sprintf("token %d: is %d, want less than the vocabulary %d (model.vocab)", e.at, e.found, e.limit)
}

// list appends the whole numbers of a JSON list, each below limit.
func list(dst []uint32, raw json.RawMessage, limit int) ([]uint32, error) {
	inner, ok := bytes.CutPrefix(raw, []byte("["))
	if !ok {
		return dst, fmt.Errorf("found %s, wanted text or a list of tokens", short(raw))
	}
	inner = bytes.TrimSpace(bytes.TrimSuffix(inner, []byte("]")))
	if len(inner) == 0 {
		return dst, nil
	}
	for i := 0; inner != nil; i++ {
		item, rest, more := bytes.Cut(inner, []byte(","))
		inner = rest
		if !more {
			inner = nil
		}
		item = bytes.TrimSpace(item)
		n, err := strconv.ParseInt(string(item), 10, 64)
		if err != nil {
			return dst, fmt.Errorf("token %d: found %s, wanted a whole number", i, short(item))
		}
		if n < 0 || n >= int64(limit) {
			return dst, &beyondError{i, n, limit}
		}
		dst = append(dst, uint32(n))
	}
	return dst, nil
}

// short is the beginning of a JSON value, for messages.
func short(raw []byte) string {
	const most = 40
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}
