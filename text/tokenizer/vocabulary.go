package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxID bounds ids: a list of tokens has a place for each.
const maxID = 1 << 24

// vocabulary is what a file says of a BPE model.
type vocabulary struct {
	ids    map[string]int32
	tokens []string // by id; "" where the vocabulary has a hole
	merges []merge

	unknown      string // the token of what has none; "": such characters are left out
	fuse         bool   // of several in a row one token
	byteFallback bool   // bytes <0x00> to <0xFF> stand for what has no token
	whole        bool   // a piece that is a token is that, whatever the merges say
}

// merge joins two tokens. Lower ranks come first.
type merge struct {
	left, right, joined int32
	rank                int32
}

// readVocabulary reads the model of a tokenizer.json.
func readVocabulary(raw json.RawMessage) (*vocabulary, error) {
	o := newObject("model", raw)
	kinds := []string{"BPE"}
	if o.raw("type") != nil { // files of 2019 and 2020 lack it
		o.one("type", kinds)
	}
	for _, name := range []string{"dropout", "continuing_subword_prefix", "end_of_word_suffix"} { // which change what a text means
		raw := o.raw(name)
		if s := string(bytes.TrimSpace(raw)); s != "" && s != `""` && s != "0" && s != "0.0" {
			o.fail("%s: found %.40s, wanted null", name, raw)
		}
	}
	v := &vocabulary{fuse: o.flag("fuse_unk", false), byteFallback: o.flag("byte_fallback", false), whole: o.flag("ignore_merges", false)}
	o.read("unk_token", &v.unknown)
	vocab := o.raw("vocab")
	if !opens(vocab, '{') {
		o.fail("vocab: found %.40s, wanted an object", vocab)
	}
	merges := o.raw("merges")
	if merges == nil {
		o.fail("merges: found nothing, wanted a list")
	}
	if err := o.done(); err != nil {
		return nil, err
	}
	if err := v.readIDs(vocab); err != nil {
		return nil, fmt.Errorf("model: vocab: %w", err)
	}
	if err := v.index(); err != nil {
		return nil, fmt.Errorf("model: vocab: %w", err)
	}
	if _, ok := v.ids[v.unknown]; v.unknown != "" && !ok {
		return nil, fmt.Errorf("model: unk_token: found %q, wanted a token of the vocabulary", v.unknown)
	}
	if err := v.readMerges(merges); err != nil {
		return nil, fmt.Errorf("model: merges: %w", err)
	}
	return v, nil
}

// index lists the tokens by id.
func (v *vocabulary) index() error {
	largest := int32(-1)
	for token, id := range v.ids {
		if id < 0 || id >= maxID || int(id) > 64*len(v.ids)+1024 {
			return fmt.Errorf("token %q: found id %d, wanted 0 to %d and few unused", token, id, maxID-1)
		}
		largest = max(largest, id)
	}
	v.tokens = make([]string, largest+1)
	for token, id := range v.ids {
		if other := v.tokens[id]; other != "" {
			names := []string{token, other}
			slices.Sort(names)
			return fmt.Errorf("found id %d of %q and of %q, wanted an id for each", id, names[0], names[1])
		}
		v.tokens[id] = token
	}
	return nil
}

// readIDs reads {"token": id, ...}.
func (v *vocabulary) readIDs(raw json.RawMessage) error {
	v.ids = map[string]int32{}
	return members(raw, func(token string, value json.RawMessage) error {
		id, err := strconv.ParseInt(string(value), 10, 32)
		if err != nil {
			return fmt.Errorf("token %q: found %.40s, wanted an id", token, value)
		}
		v.ids[token] = int32(id)
		return nil
	})
}

// readMerges reads ["a b", ...] or [["a", "b"], ...].
func (v *vocabulary) readMerges(raw json.RawMessage) error {
	if !opens(raw, '[') {
		return fmt.Errorf("found %.40s, wanted a list", raw)
	}
	return elements(raw, func(i int, value json.RawMessage) error {
		var pair []string
		var err error
		if opens(value, '"') {
			var line string
			if err = unquote(value, &line); strings.HasPrefix(line, "#version") {
				return nil
			}
			if pair = strings.Split(line, " "); err == nil && len(pair) != 2 {
				return fmt.Errorf("[%d]: found %q, wanted two tokens and a space between them", i, line)
			}
		} else if pair, err = readPair(value); err == nil && len(pair) != 2 {
			return fmt.Errorf("[%d]: found %d tokens, wanted 2", i, len(pair))
		}
		if err != nil {
			return fmt.Errorf("[%d]: found %.40s, wanted a text or a pair of texts: %w", i, value, err)
		}
		m := merge{rank: int32(i)}
		for _, part := range []struct {
			token string
			id    *int32
		}{{pair[0], &m.left}, {pair[1], &m.right}, {pair[0] + pair[1], &m.joined}} {
			id, ok := v.ids[part.token]
			if !ok {
				return fmt.Errorf("[%d]: found %q, wanted tokens of the vocabulary", i, part.token)
			}
			*part.id = id
		}
		v.merges = append(v.merges, m)
		return nil
	})
}

func readPair(raw json.RawMessage) (pair []string, err error) {
	if !opens(raw, '[') {
		return nil, errors.New("neither")
	}
	err = elements(raw, func(_ int, value json.RawMessage) error {
		var token string
		err := unquote(value, &token)
		pair = append(pair, token)
		return err
	})
	return pair, err
}

// add gives an added token its place: its id is that of the vocabulary, or the next one, as the reference counts.
func (v *vocabulary) add(all []addedToken) error {
	next, known := int32(len(v.ids)), map[string]int32{}
	for _, t := range all {
		want, inModel := v.ids[t.content]
		if id, again := known[t.content]; again {
			want = id
		} else if !inModel {
			want = next
		}
		if t.id != want {
			return fmt.Errorf("added_tokens: %q: found id %d, wanted %d: %w", t.content, t.id, want, errID)
		}
		known[t.content], next = t.id, max(next, t.id+1)
		if inModel {
			continue
		}
		for int(t.id) >= len(v.tokens) {
			v.tokens = append(v.tokens, "")
		}
		if v.tokens[t.id] != "" && v.tokens[t.id] != t.content {
			return fmt.Errorf("added_tokens: %q: found id %d, which %q has", t.content, t.id, v.tokens[t.id])
		}
		v.tokens[t.id] = t.content
	}
	return nil
}

var errID = errors.New("an added token has the id of its text in the vocabulary, or the next one behind it")
