package texts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"gputrain/chat/formats"
	"gputrain/data"
)

// pairKeys are those of a row.
var pairKeys = [3]string{"prompt", "chosen", "rejected"}

// pair is what one row says.
func (j *jsonl) pair(line []byte) (both []document, err error) {
	object, err := objectOf(line)
	if err != nil {
		return nil, err
	}
	for _, key := range pairKeys {
		if raw, ok := object[key]; !ok || string(raw) == "null" {
			return nil, missing(object, pairKeys[:]...)
		}
	}
	for _, key := range pairKeys[1:] {
		d, err := j.completion(object[pairKeys[0]], object[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if !d.learns() {
			return nil, fmt.Errorf("%s: %w", key, errEmptyCompletion)
		}
		both = append(both, d)
	}
	return both, nil
}

var errEmptyCompletion = errors.New("found no token to be learned after a prompt, wanted a prompt and a completion of at least one token each")

// completion is a prompt and what follows it.
func (j *jsonl) completion(prompt, completion json.RawMessage) (document, error) {
	row, err := json.Marshal(map[string]json.RawMessage{"prompt": prompt, "completion": completion})
	if err != nil {
		return document{}, err
	}
	if tokens := prompt[0] == '[' && !bytes.HasPrefix(bytes.TrimLeft(prompt[1:], " \t\r\n"), []byte("{")); !tokens && j.chats != nil {
		return j.conversation(row, formats.Completion)
	}
	own := *j
	own.format, own.fields = data.FormatFields, data.Fields{Prompt: "prompt", Text: "completion"}
	return own.document(row)
}

// onePiece refuses documents of pairs that are not a window each.
func (d *Documents) onePiece(i, pieces int, s span, size int) error {
	if !d.paired || pieces == 1 && int64(s.count) <= int64(size)+1 {
		return nil
	}
	return fmt.Errorf("row %d: %s: found %d tokens with the prompt, wanted at most %d: a window and one token more", i/2+1, pairKeys[1+i%2], s.count, size+1)
}
