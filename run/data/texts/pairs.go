package texts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gputrain/internal/formats"
	"gputrain/model"
	"gputrain/run/data"
)

// A group is what rows are read for, that become one or several documents: a window each, which stay together. Its zero value is a document a row, in windows
// as these come.
type group struct {
	name string   // of one
	keys []string // of the row, by document
	read func(j *jsonl, line []byte) (all []document, err error)
	laid string // what rows have beside their tokens (data.Batch.Beside), document.beside; "": nothing
	ends bool   // documents end in a label, which is no token: see ended
}

func (g group) size() int { return max(1, len(g.keys)) }

// windows tells whether each document is a window.
func (g group) windows() bool { return g.read != nil }

// groups are those of the formats that have them.
var groups = map[string]group{
	formats.Pairs:    {"pair", pairKeys[1:], (*jsonl).pair, "", false},
	formats.Labelled: {"row", labelledKeys[1:2], (*jsonl).labelled, model.InputGood, false},
	formats.Ranked:   {"pair", pairKeys[1:], (*jsonl).ranked, model.InputMargin, true},
	formats.Classes:  {"row", []string{"text"}, (*jsonl).class, "", true},
	formats.Queries:  {"row", queryKeys, (*jsonl).query, "", true},
}

// group is what rows make: of queries, so many documents each.
func (c Config) group() group {
	g := groups[c.Format]
	for i := 0; c.Format == formats.Queries && len(g.keys) < c.Group; i++ {
		g.keys = append(slices.Clip(g.keys), fmt.Sprintf("negatives[%d]", i))
	}
	return g
}

// how is what documents follow from, besides their format.
func (g group) how(c Config) string {
	if g.laid == "" && !g.ends {
		return ""
	}
	return fmt.Sprintf(" %d documents a row, laid %q, labels %d %q", g.size(), g.laid, c.Labels, c.Names)
}

// labelledKeys are those of a row with one completion that is good or bad.
var labelledKeys = []string{"prompt", "completion", "label"}

// ktoTag is what others call label.
const ktoTag = "kto_tag"

// labelled is what one such row says.
func (j *jsonl) labelled(line []byte) ([]document, error) {
	object, err := objectOf(line)
	if err != nil {
		return nil, err
	}
	object = maps.Clone(object)
	name := labelledKeys[2]
	if none(object, name) && !none(object, ktoTag) {
		name = ktoTag
	}
	label := object[name]
	for _, key := range []string{labelledKeys[0], labelledKeys[1], name} {
		if none(object, key) {
			return nil, missing(object, labelledKeys...)
		}
	}
	good := false
	switch string(label) {
	case "true", "1", "1.0":
		good = true
	case "false", "0", "0.0":
	default:
		return nil, fmt.Errorf("%s: found %s, wanted true (good), false, 1 or 0", name, short(label))
	}
	delete(object, name)
	d, err := j.completion(object, "completion")
	if err != nil {
		return nil, fmt.Errorf("completion: %w", err)
	}
	if !d.learns() || d.tokens[0]&unlabelled == 0 {
		return nil, fmt.Errorf("completion: %w", errEmptyCompletion)
	}
	if good {
		d.beside = 1
	}
	return []document{d}, nil
}

// pairKeys are those of a row.
var pairKeys = []string{"prompt", "chosen", "rejected"}

// pair is what one row says.
func (j *jsonl) pair(line []byte) ([]document, error) {
	object, err := objectOf(line)
	if err != nil {
		return nil, err
	}
	return j.pairOf(object)
}

func (j *jsonl) pairOf(object map[string]json.RawMessage) (both []document, err error) {
	for _, key := range pairKeys[1:] {
		if none(object, key) {
			return nil, missing(object, pairKeys...)
		}
	}
	object, twice, err := fullPrompt(object)
	if err != nil {
		return nil, err
	}
	if none(object, pairKeys[0]) {
		return nil, missing(object, pairKeys...)
	}
	for _, key := range pairKeys[1:] {
		d, err := j.completion(object, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if !d.learns() {
			return nil, fmt.Errorf("%s: %w", key, errEmptyCompletion)
		}
		if twice && d.otherwise == "" {
			d.otherwise = key + ": the prompt, with which it begins, stands there once"
		}
		both = append(both, d)
	}
	return both, nil
}

func none(object map[string]json.RawMessage, key string) bool {
	raw, ok := object[key]
	return !ok || string(raw) == "null"
}

var errEmptyCompletion = errors.New("found no token to be learned after a prompt, wanted a prompt and a completion of at least one token each")

// fullPrompt gives a row whose completions are lists of messages a prompt that is one. These may begin with the prompt, as UltraFeedback's do, which then
// may be missing, or be the text of the question alone. twice: it is a list all the same.
func fullPrompt(object map[string]json.RawMessage) (full map[string]json.RawMessage, twice bool, err error) {
	chosen, rejected := messagesOf(object["chosen"]), messagesOf(object["rejected"])
	if len(chosen) == 0 || len(rejected) == 0 {
		return object, false, nil
	}
	shared := 0
	for shared < min(len(chosen), len(rejected)) && same(chosen[shared], rejected[shared]) {
		shared++
	}
	var prompt []json.RawMessage
	var text string
	switch listed := messagesOf(object["prompt"]); {
	case len(listed) > 0:
		twice = len(listed) <= shared && slices.EqualFunc(listed, chosen[:len(listed)], same)
		if prompt, shared = listed, 0; twice {
			shared = len(listed)
		}
	case none(object, "prompt"):
		if prompt = chosen[:shared]; shared == 0 {
			return nil, false, errors.New("prompt: found none, and chosen and rejected begin with no message that both have, wanted a prompt")
		}
	case json.Unmarshal(object["prompt"], &text) != nil:
		return object, false, nil
	case shared == 0 && answers(chosen[0]) && answers(rejected[0]):
		one, err := json.Marshal(map[string]string{"role": "user", "content": text})
		if err != nil {
			return nil, false, err
		}
		prompt = []json.RawMessage{one}
	default:
		asked := false
		for _, m := range chosen[:shared] {
			content, _ := said(m)[1].(string)
			asked = asked || strings.TrimSpace(content) == strings.TrimSpace(text)
		}
		if prompt = chosen[:shared]; !asked {
			return nil, false, fmt.Errorf("prompt: found the text %s, which is none of the messages that both chosen and rejected begin with, wanted it to be one of them",
				short(object["prompt"]))
		}
	}
	if len(chosen) == shared || len(rejected) == shared {
		return nil, false, fmt.Errorf("chosen, rejected: found %d and %d messages, of which the first %d are the prompt, wanted an answer in each",
			len(chosen), len(rejected), shared)
	}
	out := maps.Clone(object)
	for key, list := range map[string][]json.RawMessage{"prompt": prompt, "chosen": chosen[shared:], "rejected": rejected[shared:]} {
		raw, err := json.Marshal(list)
		if err != nil {
			return nil, false, err
		}
		out[key] = raw
	}
	return out, twice, nil
}

// messagesOf are the messages of a list, or the one of an object; nil: it is something else.
func messagesOf(raw json.RawMessage) (list []json.RawMessage) {
	switch {
	case bytes.HasPrefix(raw, []byte("{")):
		return []json.RawMessage{raw}
	case json.Unmarshal(raw, &list) != nil:
		return nil
	}
	for _, m := range list {
		if !bytes.HasPrefix(bytes.TrimLeft(m, " \t\r\n"), []byte("{")) {
			return nil
		}
	}
	return list
}

// said is what of a message makes it another one: not, say, a score beside it.
func said(m json.RawMessage) (all [4]any) {
	var of map[string]any
	_ = json.Unmarshal(m, &of) // whoever reads the message says what is wrong with it
	for i, keys := range [][2]string{{"role", "from"}, {"content", "value"}, {"tool_calls"}, {"function_call"}} {
		if all[i] = of[keys[0]]; all[i] == nil {
			all[i] = of[keys[1]]
		}
	}
	return all
}

func same(a, b json.RawMessage) bool { return reflect.DeepEqual(said(a), said(b)) }

func answers(m json.RawMessage) bool { role := said(m)[0]; return role == "assistant" || role == "gpt" }

// completion is a prompt and what follows it, with all that a row has besides.
func (j *jsonl) completion(object map[string]json.RawMessage, key string) (document, error) {
	row := maps.Clone(object)
	row["completion"] = row[key]
	for _, other := range []string{"chosen", "rejected", "messages"} { // the last are one of these with its prompt
		delete(row, other)
	}
	line, err := json.Marshal(row)
	if err != nil {
		return document{}, err
	}
	prompt := row["prompt"]
	if tokens := prompt[0] == '[' && !bytes.HasPrefix(bytes.TrimLeft(prompt[1:], " \t\r\n"), []byte("{")); !tokens && j.chats != nil {
		return j.conversation(line, formats.Completion)
	}
	own := *j
	own.format, own.fields = formats.Fields, data.Fields{Prompt: "prompt", Text: "completion"}
	return own.document(line)
}

// onePiece refuses documents of groups that are not a window each.
func (d *Documents) onePiece(i, pieces int, s span, size int) error {
	if !d.group.windows() || pieces == 1 && int64(s.count) <= int64(size)+1 {
		return nil
	}
	row, key := d.place(i)
	if d.group.ends {
		return fmt.Errorf("row %d: %s: found %d tokens, wanted at most %d, a window: model.context", row, key, s.count-1, size)
	}
	return fmt.Errorf("row %d: %s: found %d tokens with the prompt, wanted at most %d, a window (model.context) and one token more", row, key, s.count, size+1)
}

// place is the row of the files, from 1 on, that document own of these is of, and what it is there.
func (d *Documents) place(own int) (row int, key string) {
	i := 0
	for ; ; i++ {
		if d.has(int64(i)) {
			if own--; own < 0 {
				break
			}
		}
	}
	return i/d.group.size() + 1, d.group.keys[i%d.group.size()]
}

// Ends refuses rows of a head whose last token is id, which is what pads them: where it stands for nothing, transformers takes scores one token earlier.
func (d *Documents) Ends(id int32) error {
	return d.each(d.later(), func(i int, s span) (bool, error) {
		var last [1]uint32
		if err := d.tokens.store.read(last[:], s.start+int64(s.count)-2); err != nil { // a label is behind it
			return false, err
		}
		if last[0]&^unlabelled == uint32(id) {
			row, key := d.place(i)
			return false, fmt.Errorf("row %d: %s: found the padding %d (pad_token_id) as its last token, wanted another: transformers would take its scores one token earlier", row, key, id)
		}
		return true, nil
	})
}
