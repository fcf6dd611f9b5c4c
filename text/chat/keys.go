package chat

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gputrain/internal/formats"
	"gputrain/text/chat/template"
)

// place is where a key stands: in a row of some form, or in a message. Several are a sum.
type place uint

const (
	inMessages place = 1 << iota
	inConversations
	inCompletion // of messages
	inPlain      // prompt and completion in plain text
	inAlpaca
	inText
	inTokens
	inMessage

	inChats = inMessages | inConversations | inCompletion | inAlpaca // what a template writes
	inRows  = inChats | inPlain | inText | inTokens
)

// A rule is of a key that changes what is seen or learned. Where it is neither read nor refused it means nothing, and counts as one that nothing reads.
type rule struct {
	keys    []string
	read    place
	refused place
	unless  bool           // a format is asked for, which says what of the row is meant
	says    func(any) bool // what a refused value has to be; nil: not empty
	why     string         // of a refusal: what it is, and what to do
	is      error          // in place of why, to be known by
}

// ErrOtherObjective is what is said of a row with a completion that is preferred to another one.
var ErrOtherObjective = errors.New("it is a row of preferences, of which one side is not to be learned; wanted preference.loss, " +
	"or data.format to read the row without that key")

// ErrLabelled is what is said of a row with a completion that is good or bad.
var ErrLabelled = errors.New("it tells completions that are good from those that are bad (KTO); wanted preference.loss kto, or rows that are to be learned, " +
	"without the key")

// rules are all of them. docs/chats.md has them as a table.
var rules = []rule{
	{
		keys: []string{"system", "system_prompt"}, read: inChats, refused: inPlain,
		why: "no template writes it beside texts; wanted prompt and completion as lists of messages, or its text in the prompt",
	},
	{
		keys: []string{"history"}, read: inAlpaca, refused: inMessages | inConversations | inCompletion | inPlain,
		why: "earlier turns are read beside instruction and output; wanted them among the messages",
	},
	{keys: append([]string{"tools", "functions", "chat_template_kwargs"}, passed...), read: inChats},
	{keys: []string{"tools", "functions"}, refused: inPlain, why: "no template writes it beside texts; wanted prompt and completion as lists of messages"},
	{
		keys: []string{"chosen", "rejected", "rejected_response"}, refused: inRows &^ inTokens, unless: true, is: ErrOtherObjective,
	},
	{
		keys: []string{"label", "kto_tag"}, refused: inChats | inPlain, says: isBool, is: ErrLabelled,
	},
	{
		keys: []string{"image", "images", "audio", "audios", "video", "videos", "pixel_values", "input_features"}, refused: inRows | inMessage,
		why: "models see text alone here; wanted rows without it",
	},
	{
		keys: []string{"weight", "loss_weight", "sample_weight"}, refused: inRows, says: weighs,
		why: "rows count alike; wanted 1, or files with weights in data.mixture",
	},
	{
		keys: []string{"train", "loss"}, refused: inRows, says: func(value any) bool { return value == false || value == int64(0) },
		why: "wanted rows that are to be learned alone",
	},
	{keys: []string{"mask", "loss_mask", "message_masks"}, refused: inChats | inPlain, why: `wanted "train" or "weight" of messages`},
	{keys: []string{"mask", "loss_mask"}, refused: inText, says: isList, why: "wanted it beside tokens (input_ids), which it counts"},
	{keys: TokenMasks, read: inTokens},
	{keys: []string{"position_ids"}, refused: inTokens, says: func(value any) bool { return !counts(value) }, why: manyTexts},
	{keys: []string{"seq_lengths"}, refused: inTokens, says: func(value any) bool { list, ok := value.([]any); return ok && len(list) > 1 }, why: manyTexts},
	{keys: append([]string{"train"}, weights...), read: inMessage},
	{keys: []string{"train_detail", "training_detail"}, refused: inMessage, why: `wanted "train" of the whole message`},
	{keys: []string{"mask"}, refused: inMessage, says: func(value any) bool { return value != false && full(value) }, why: `wanted "train": true or false`},
}

const manyTexts = "the row has several texts; wanted a row for each, which data.packing puts together"

// TokenMasks are the keys beside a list of tokens that say which of them are learned, and, the last, which are seen.
var TokenMasks = []string{"labels", "completion_mask", "assistant_masks", "loss_mask", "attention_mask"}

// weights are the keys of a message that is not learned where they are 0.
var weights = []string{"weight", "loss_weight", "loss"}

// byKey are the rules of each key.
var byKey = func() map[string][]*rule {
	all := map[string][]*rule{}
	for i := range rules {
		for _, key := range rules[i].keys {
			all[key] = append(all[key], &rules[i])
		}
	}
	return all
}()

// look refuses a key for what it says, and tells whether anything reads it. asked: a format is asked for.
func look(key string, value any, at place, asked bool) (read bool, err error) {
	for _, r := range byKey[key] {
		says := r.says
		if says == nil {
			says = full
		}
		if r.refused&at != 0 && !(asked && r.unless) && says(value) {
			return false, fmt.Errorf("%s: found %s: %w", key, brief(value), cmp.Or(r.is, errors.New(r.why)))
		}
		read = read || r.read&at != 0
	}
	return read, nil
}

// Document refuses keys of a row that is text or tokens (a list), not a conversation, besides its own fields, and returns those that nothing reads. Where
// fields are asked for by name, a text has no other keys.
func Document(keys []string, value func(key string) (any, error), tokens, asked bool) (unread []string, err error) {
	at := inText
	if tokens {
		at = inTokens
	}
	for _, key := range keys {
		if len(byKey[key]) == 0 {
			unread = append(unread, key)
			continue
		}
		v, err := value(key)
		if err != nil || v == nil {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			continue
		}
		read := false
		if tokens || !asked {
			if read, err = look(key, v, at, asked); err != nil {
				return nil, fmt.Errorf("chat: row: %w", err)
			}
		}
		if !read {
			unread = append(unread, key)
		}
	}
	return unread, nil
}

// places are where the keys of a row of a format stand.
var places = map[string]place{
	formats.Messages: inMessages, formats.Conversations: inConversations, formats.Completion: inCompletion, formats.Alpaca: inAlpaca, formats.Text: inText,
}

// more are keys that a format reads besides those that it has to have.
var more = map[string][]string{formats.Alpaca: {"input"}}

// look refuses keys of a row for what they say, and notes those that nothing reads.
func (c *Conversation) look(row *template.Object, asked bool) error {
	at := places[c.Format]
	if prompt, _ := row.Get("prompt"); at == inCompletion {
		if _, listed := prompt.([]any); !listed {
			at = inPlain
		}
	}
	for _, key := range row.Keys() {
		value, _ := row.Get(key)
		if value == nil || slices.Contains(keys[c.Format], key) || slices.Contains(more[c.Format], key) {
			continue
		}
		read, err := look(key, value, at, asked)
		if err != nil {
			return err
		}
		if !read {
			c.Unread = append(c.Unread, key)
		}
	}
	return nil
}

// full tells whether a value says anything: a column that has nothing for a row has null, or something of the same form that is empty.
func full(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case string:
		return v != ""
	case []any:
		return slices.ContainsFunc(v, full)
	case *template.Object:
		return slices.ContainsFunc(v.Keys(), func(key string) bool { one, _ := v.Get(key); return full(one) })
	}
	return true
}

func isBool(value any) bool { _, ok := value.(bool); return ok }

func isList(value any) bool { _, ok := value.([]any); return ok }

// weighs tells a weight that is not 1.
func weighs(value any) bool {
	switch v := value.(type) {
	case int64:
		return v != 1
	case float64:
		return v != 1
	}
	return isBool(value) && value != true
}

// counts tells a list of 0, 1, 2 and so on.
func counts(value any) bool {
	list, ok := value.([]any)
	for i, one := range list {
		ok = ok && one == int64(i)
	}
	return ok
}

// brief is a value, or what it is.
func brief(value any) string {
	switch v := value.(type) {
	case bool, int64, float64:
		return fmt.Sprint(v)
	case string:
		return fmt.Sprintf("%.40q", v)
	}
	return template.Kind(value)
}
