package llamacpp

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"gputrain/gguf"
)

// endNames are what tokens that end a text are called, where nothing says which one does.
var endNames = []string{"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}

// turnEnds are tokens that end an answer, where a tokenizer has them.
var turnEnds = []string{"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"}

// specialTokens are Hugging Face's and llama.cpp's names of the same.
var specialTokens = [][2]string{{"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"pad", "padding"}}

// special are the keys of tokens with a meaning, and the template of chats. begins and ends say whether a token is put before a text, and after it.
func special(m Model, c *config, tokens []string, kinds []int32, begins, ends bool) (keys []gguf.Key, err error) {
	said := &config{fields: map[string]any{}}
	if raw, err := m.Read("tokenizer_config.json"); err == nil {
		if said, err = parseConfig(raw); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	id := func(name string) int {
		text := said.text(name + "_token")
		if object, ok := said.fields[name+"_token"].(map[string]any); ok {
			text, _ = object["content"].(string)
		}
		if i := slices.Index(tokens, text); text != "" && i >= 0 {
			return i
		}
		ids := c.integers(name + "_token_id")
		if c.fields[name+"_token_id"] != nil && ids == nil {
			ids = []int{int(c.number(name+"_token_id", -1))}
		}
		if len(ids) > 0 && ids[0] < len(tokens) {
			return ids[0]
		}
		return -1
	}
	eos := id("eos")
	if eos < 0 {
		eos = named(tokens, func(i int) bool { return kinds[i] == controlToken }, endNames)
	}
	turn, err := m.turn(tokens, eos)
	if err != nil {
		return nil, err
	}
	if eos < 0 {
		eos = turn
	}
	if eos < 0 && m.Tell != nil {
		m.Tell("found no token that ends a text: llama.cpp takes one of its own choice (2 of a SentencePiece model, 11 of others) for it, and stops there")
	}
	for _, row := range specialTokens {
		i := id(row[0])
		if row[0] == "eos" {
			i = eos
		}
		if i >= 0 {
			keys = append(keys, gguf.Key{Name: "tokenizer.ggml." + row[1] + "_token_id", Value: uint32(i)})
		}
	}
	if turn >= 0 {
		keys = append(keys, gguf.Key{Name: "tokenizer.ggml.eot_token_id", Value: uint32(turn)})
	}
	for _, row := range []struct {
		key string
		is  *bool
	}{{"add_bos_token", &begins}, {"add_eos_token", &ends}} {
		if told, ok := said.fields[row.key].(bool); ok {
			*row.is = told
		}
		keys = append(keys, gguf.Key{Name: "tokenizer.ggml." + row.key, Value: *row.is})
	}
	templates, err := m.templates(said)
	return append(keys, templates...), err
}

// templates are the keys of the templates of chats: one for everything, and others by their names.
func (m Model) templates(said *config) (keys []gguf.Key, err error) {
	const key = "tokenizer.chat_template"
	if raw, err := m.Read("chat_template.jinja"); err == nil {
		return []gguf.Key{{Name: key, Value: string(raw)}}, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if one := said.text("chat_template"); one != "" {
		return []gguf.Key{{Name: key, Value: one}}, nil
	}
	var names []string
	for _, t := range list(said.fields["chat_template"], func(t map[string]any) *config { return &config{t} }) {
		switch name, text := t.text("name"), t.text("template"); {
		case name == "" || text == "" || slices.Contains(names, name):
		case name == "default":
			keys = append(keys, gguf.Key{Name: key, Value: text})
		default:
			names = append(names, name)
			keys = append(keys, gguf.Key{Name: key + "." + name, Value: text})
		}
	}
	if names != nil {
		keys = append(keys, gguf.Key{Name: "tokenizer.chat_templates", Value: names})
	}
	return keys, nil
}

// named is the first of some names that a token has; -1: none.
func named(tokens []string, is func(id int) bool, names []string) int {
	for _, name := range names {
		if i := slices.Index(tokens, name); i >= 0 && is(i) {
			return i
		}
	}
	return -1
}

// turn is the token that ends an answer; -1: none is known. It is the one that the template writes there, one with a name that says so, or one by which
// generation_config.json ends an answer besides the one that ends a text.
func (m Model) turn(tokens []string, eos int) (int, error) {
	if len(m.Ends) > 0 && m.Ends[0] != eos && m.Ends[0] >= 0 && m.Ends[0] < len(tokens) {
		return m.Ends[0], nil
	}
	if i := named(tokens, func(int) bool { return true }, turnEnds); i >= 0 {
		return i, nil
	}
	raw, err := m.Read("generation_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	said, err := parseConfig(raw)
	if err != nil {
		return -1, fmt.Errorf("generation_config.json: %w", err)
	}
	for _, id := range said.integers("eos_token_id") {
		if id != eos && id >= 0 && id < len(tokens) {
			return id, nil
		}
	}
	return -1, nil
}
