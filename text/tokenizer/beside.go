package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/stranger"
)

// Files beside a tokenizer that may have tokens which its own file lacks.
const (
	configFile = "tokenizer_config.json"
	namesFile  = "special_tokens_map.json"
	addedFile  = "added_tokens.json"
)

// A besideToken is a token that such a file has. Its id is below 0 where the file says none.
type besideToken struct {
	addedToken
	where string // the file and the key
}

// settings are what the files beside a tokenizer say of it.
type settings struct {
	AddBOS *bool `json:"add_bos_token"` // for a SentencePiece model: a tokenizer.json has a post-processor
	AddEOS *bool `json:"add_eos_token"`

	listed []besideToken          // with an id, in the order of these
	named  []besideToken          // without, in the order in which they get one
	kin    map[string]besideToken // those of named that have a role, such as eos_token
	ownEnd string                 // eos_token of tokenizer_config.json alone, which was all that earlier programs read
	ids    []int32                // eos_token_id of generation_config.json, then of config.json
}

// roles are the keys of tokens with a role, in the order in which transformers adds them.
var roles = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// readSettings reads the files of a directory by the rules of transformers 5: with added_tokens_decoder in tokenizer_config.json nothing else lists
// tokens, and without it special_tokens_map.json wins over tokenizer_config.json, and added_tokens.json lists tokens too.
func readSettings(files stranger.Files) (*settings, error) {
	s := &settings{kin: map[string]besideToken{}}
	if err := stranger.Beside(files, configFile, s); err != nil {
		return nil, err
	}
	config, err := readTokens(files, configFile)
	if err != nil {
		return nil, err
	}
	older := &fileTokens{}
	if s.listed = config.listed; s.listed == nil {
		if older, err = readTokens(files, namesFile); err != nil {
			return nil, err
		}
		if s.listed, err = readAddedFile(files); err != nil {
			return nil, err
		}
	}
	s.ownEnd = config.roles["eos_token"].content
	for _, role := range roles {
		for _, from := range []*fileTokens{older, config} {
			if t, there := from.roles[role]; there && s.kin[role].content == "" {
				s.kin[role] = t
				s.named = append(s.named, t)
			}
		}
	}
	s.named = slices.Concat(s.named, older.others, config.others, config.byName, older.byName)
	extra := config.extra
	if extra == nil {
		extra = config.additional
	}
	if extra = append(extra, older.extra...); extra == nil {
		extra = older.additional
	}
	s.named = append(s.named, extra...)
	special := map[string]bool{}
	for _, t := range s.named {
		special[t.content] = true
	}
	for i, t := range s.listed {
		if t.where == addedFile && special[t.content] {
			s.listed[i].special, s.listed[i].normalized = true, false
		}
	}
	for _, name := range []string{"generation_config.json", "config.json"} {
		ids, err := stranger.Ends(files, name)
		if err != nil {
			return nil, err
		}
		s.ids = append(s.ids, ids...)
	}
	return s, nil
}

// fileTokens are the tokens of one file. A list that is there is not nil.
type fileTokens struct {
	roles             map[string]besideToken
	others            []besideToken // of other keys that end in _token
	byName            []besideToken // of extra_special_tokens, where that is an object
	extra, additional []besideToken // of the lists extra_special_tokens and additional_special_tokens
	listed            []besideToken // of added_tokens_decoder
}

func readTokens(files stranger.Files, file string) (*fileTokens, error) {
	f := &fileTokens{roles: map[string]besideToken{}}
	return f, eachBeside(files, file, func(key string, raw json.RawMessage) (err error) {
		switch {
		case slices.Contains(roles, key):
			t, err := readBeside(file+": "+key, raw)
			t.special, f.roles[key] = true, t
			return err
		case strings.HasSuffix(key, "_token"):
			if t, err := readBeside(file+": "+key, raw); err == nil { // add_bos_token is none, for one
				f.others = append(f.others, t)
			}
		case key == "additional_special_tokens":
			f.additional, err = readList(file+": "+key, raw)
		case key == "extra_special_tokens" && opens(raw, '{'):
			err = members(raw, func(name string, raw json.RawMessage) error {
				t, err := readBeside(file+": "+key+": "+name, raw)
				f.byName = append(f.byName, t)
				return err
			})
		case key == "extra_special_tokens":
			f.extra, err = readList(file+": "+key, raw)
		case key == "added_tokens_decoder":
			f.listed, err = readListed(file+": "+key, raw)
		}
		return err
	})
}

// eachBeside visits the members of a file that may be missing, but for those that are null.
func eachBeside(files stranger.Files, file string, visit func(key string, raw json.RawMessage) error) error {
	var raw json.RawMessage
	if err := stranger.Beside(files, file, &raw); err != nil || raw == nil {
		return err
	}
	if raw = bytes.TrimSpace(raw); !opens(raw, '{') {
		return fmt.Errorf("%s: found %.40s, wanted an object", file, raw)
	}
	return members(raw, func(key string, raw json.RawMessage) error {
		if string(raw) == "null" {
			return nil
		}
		return visit(key, raw)
	})
}

// readBeside reads a special token: a text, or an object that says how it is looked for.
func readBeside(where string, raw json.RawMessage) (besideToken, error) {
	t := besideToken{addedToken{id: -1, special: true}, where}
	if json.Unmarshal(raw, &t.content) == nil && opens(raw, '"') {
		return t, nil
	}
	return t, t.read(raw)
}

// read reads the object of a token; what it leaves out is as t has it.
func (t *besideToken) read(raw json.RawMessage) error {
	o := struct {
		Content    *string `json:"content"`
		Special    *bool   `json:"special"`
		Normalized *bool   `json:"normalized"`
		LStrip     bool    `json:"lstrip"`
		RStrip     bool    `json:"rstrip"`
		SingleWord bool    `json:"single_word"`
	}{Special: &t.special}
	if err := json.Unmarshal(raw, &o); err != nil || o.Content == nil {
		return fmt.Errorf("%s: found %.40s, wanted a text or an object with a content", t.where, raw)
	}
	t.content, t.lstrip, t.rstrip, t.singleWord = *o.Content, o.LStrip, o.RStrip, o.SingleWord
	if t.normalized = !t.special; o.Normalized != nil {
		t.normalized = *o.Normalized
	}
	return nil
}

func readList(where string, raw json.RawMessage) ([]besideToken, error) {
	if !opens(raw, '[') {
		return nil, fmt.Errorf("%s: found %.40s, wanted a list", where, raw)
	}
	all := []besideToken{}
	return all, elements(raw, func(_ int, raw json.RawMessage) error {
		t, err := readBeside(where, raw)
		all = append(all, t)
		return err
	})
}

// readListed reads {"id": {"content": ...}, ...}.
func readListed(where string, raw json.RawMessage) ([]besideToken, error) {
	if !opens(raw, '{') {
		return nil, fmt.Errorf("%s: found %.40s, wanted an object", where, raw)
	}
	all := []besideToken{}
	err := members(raw, func(key string, raw json.RawMessage) error {
		t := besideToken{where: where}
		if err := t.read(raw); err != nil {
			return err
		}
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 || t.content == "" {
			return fmt.Errorf("%s: found %.20q for %.80q, wanted the id of a token with a content", where, key, t.content)
		}
		t.id = int32(id)
		all = append(all, t)
		return nil
	})
	return inOrder(all), err
}

// readAddedFile reads {"token": id, ...}.
func readAddedFile(files stranger.Files) (all []besideToken, err error) {
	err = eachBeside(files, addedFile, func(text string, raw json.RawMessage) error {
		id, err := strconv.ParseInt(string(raw), 10, 32)
		if err != nil || id < 0 || text == "" {
			return fmt.Errorf("%s: found %.40s for %.80q, wanted the id of a token", addedFile, raw, text)
		}
		all = append(all, besideToken{addedToken{id: int32(id), content: text, normalized: true}, addedFile})
		return nil
	})
	return inOrder(all), err
}

func inOrder(all []besideToken) []besideToken {
	slices.SortStableFunc(all, func(a, b besideToken) int { return int(a.id) - int(b.id) })
	return all
}

// endNames are what tokens that end a text are called, in tokenizers that nothing lies beside.
var endNames = []string{"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}

// ends are the id that is put behind a text, and those that end one, where text is the eos_token. Those that the model has and the tokenizer lacks
// are none of its own.
func (s *settings) ends(t *Tokenizer, text string) (end int32, all []int32) {
	ids, end := slices.Clone(s.ids), int32(-1)
	if id, ok := t.ID(text); ok {
		ids, end = append(ids, id), id
	}
	for _, name := range endNames {
		if id, ok := t.ID(name); ok && t.special[id] && len(ids) == 0 {
			ids = append(ids, id)
		}
	}
	kept := ids[:0]
	for _, id := range ids {
		if _, err := t.Token(id); err == nil && !slices.Contains(kept, id) {
			kept = append(kept, id)
		}
	}
	if end < 0 && len(kept) > 0 {
		end = kept[0]
	}
	return end, kept
}
