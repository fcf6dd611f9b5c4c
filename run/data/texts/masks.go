package texts

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// look refuses keys of a row that is no conversation for what they say, and returns those that nothing reads.
func (j *jsonl) look(object map[string]json.RawMessage, name string, tokens bool) (unread []string, err error) {
	var names []string
	own := []string{name, j.fields.Prompt, j.fields.Mask}
	for key, raw := range object {
		if string(raw) != "null" && !slices.Contains(own, key) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	value := func(key string) (any, error) { return template.Decode(object[key]) }
	asked := j.fields != data.Fields{} || j.format != "" && j.format != formats.Auto
	return chat.Document(names, value, tokens, asked)
}

const followed = "labels or masks beside the tokens are followed"

// attention is the key of a mask that tells padding.
const attention = "attention_mask"

// masks follows what stands beside the tokens of a document, which are those from begin on: labels, masks, and what is padding.
func (j *jsonl) masks(d *document, begin int, object map[string]json.RawMessage) error {
	was := slices.Clone(d.tokens)
	for _, key := range chat.TokenMasks {
		raw, ok := object[key]
		if !ok || string(raw) == "null" || j.fields.Mask != "" && (key == j.fields.Mask || key != attention) {
			continue
		}
		var err error
		switch key {
		case attention:
			var seen []uint32
			seen, err = attended(d.tokens[begin:], raw)
			d.tokens = append(d.tokens[:begin], seen...)
		case "labels":
			err = labels(d.tokens[begin:], raw)
		default:
			err = mask(d.tokens[begin:], raw)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(d.tokens) == 0 {
		if len(was) > 0 {
			d.otherwise = followed
		}
		return nil
	}
	d.masked = d.masked || slices.ContainsFunc(d.tokens[1:], func(t uint32) bool { return t&unlabelled != 0 })
	if !slices.Equal(was[1:], d.tokens[1:]) || was[0]&^unlabelled != d.tokens[0]&^unlabelled { // the first is never predicted
		d.otherwise = followed
	}
	return nil
}

// labels marks the tokens whose label is -100; any other label is the token itself, as transformers has them.
func labels(tokens []uint32, raw json.RawMessage) error {
	list, err := wholes(raw)
	if err != nil {
		return err
	}
	if len(list) != len(tokens) {
		return fmt.Errorf("%d labels, wanted one for each of the %d tokens", len(list), len(tokens))
	}
	for i, label := range list {
		switch token := tokens[i] &^ unlabelled; {
		case label == data.Ignored:
			tokens[i] |= unlabelled
		case label != int64(token):
			return fmt.Errorf("label %d: is %d, want the token itself, %d, or %d for one that is not learned: labels stand beside their tokens",
				i, label, token, data.Ignored)
		}
	}
	return nil
}

// attended are the tokens that a mask does not call padding, which stands before or behind them.
func attended(tokens []uint32, raw json.RawMessage) ([]uint32, error) {
	seen, err := zeroOrOne(raw, len(tokens), "a token that is seen", "padding")
	if err != nil {
		return nil, err
	}
	first := slices.Index(seen, 1)
	if first < 0 {
		return nil, nil
	}
	last := len(seen) - 1
	for seen[last] == 0 {
		last--
	}
	if hole := slices.Index(seen[first:last], 0); hole >= 0 {
		return nil, fmt.Errorf("value %d: is 0 between tokens that are seen, wanted padding before or behind them alone", first+hole)
	}
	return tokens[first : last+1], nil
}

// wholes are the whole numbers of a list.
func wholes(raw json.RawMessage) (list []int64, err error) {
	if err = json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("found %s, wanted a list of whole numbers", short(raw))
	}
	return list, nil
}

// zeroOrOne are the values of a mask of so many tokens.
func zeroOrOne(raw json.RawMessage, tokens int, one, zero string) ([]uint32, error) {
	values, err := list(nil, raw, 2)
	var beyond *beyondError
	if errors.As(err, &beyond) {
		err = fmt.Errorf("value %d: is %d, want 1 for %s or 0 for %s", beyond.at, beyond.found, one, zero)
	}
	if err == nil && len(values) != tokens {
		err = fmt.Errorf("%d values, wanted one for each of the %d tokens", len(values), tokens)
	}
	return values, err
}

// mask marks the tokens that are not to be predicted.
func mask(tokens []uint32, raw json.RawMessage) error {
	counts, err := zeroOrOne(raw, len(tokens), "a token to predict", "one not")
	if err != nil {
		return err
	}
	for i, c := range counts {
		if c == 0 {
			tokens[i] |= unlabelled
		}
	}
	return nil
}

// ofMask reads the field that data.mask_field names: of labels, which -100 tells, or of 1 and 0.
func ofMask(name string, tokens []uint32, raw json.RawMessage) error {
	list, err := wholes(raw)
	beyond := name == "labels" && slices.ContainsFunc(list, func(n int64) bool { return n > 1 })
	if err == nil && (beyond || slices.Contains(list, data.Ignored)) {
		return labels(tokens, raw)
	}
	return mask(tokens, raw)
}
