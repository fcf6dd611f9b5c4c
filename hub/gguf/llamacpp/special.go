package llamacpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"gputrain/hub/gguf"
)

// endNames are what tokens that end a text are called, where nothing says which one does.
var endNames = []string{"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}

// turnEnds are tokens that end an answer, where a tokenizer has them.
var turnEnds = []string{"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"}

// specialTokens are Hugging Face's and llama.cpp's names of the same.
var specialTokens = [][2]string{{"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"pad", "padding"}}

// special are the keys of tokens with a meaning, and the template of chats. What llama.cpp puts around a text are its tokens that begin and end one.
func special(m Model, c *config, tokens []string, kinds []int32, around border) (keys []gguf.Key, err error) {
	said, err := m.said("tokenizer_config.json")
	if err != nil {
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
		if ids := c.ids(name + "_token_id"); len(ids) > 0 && ids[0] < len(tokens) {
			return ids[0]
		}
		return -1
	}
	eos := id("eos")
	if eos < 0 {
		eos = named(tokens, func(i int) bool { return kinds[i] == controlToken }, endNames)
	}
	others := []int{eos}
	if len(around.behind) > 0 {
		eos = around.behind[0]
	}
	drawn, err := m.said("generation_config.json")
	if err != nil {
		return nil, err
	}
	drawnEnds := drawn.ids("eos_token_id")
	turn := m.turn(tokens, eos, drawnEnds)
	if eos < 0 {
		eos = turn
	}
	others = slices.DeleteFunc(slices.Concat(others, m.Ends, drawnEnds, c.ids("eos_token_id")), func(id int) bool {
		return id < 0 || id >= len(tokens) || id == eos || id == turn
	})
	if eos < 0 && m.Tell != nil {
		m.Tell("found no token that ends a text: llama.cpp takes one of its own choice (2 of a SentencePiece model, 11 of others) for it, and stops there")
	}
	for _, row := range specialTokens {
		i := id(row[0])
		switch {
		case row[0] == "eos":
			i = eos
		case row[0] == "bos" && len(around.before) > 0:
			i = around.before[0]
		}
		if i >= 0 {
			keys = append(keys, gguf.Key{Name: "tokenizer.ggml." + row[1] + "_token_id", Value: uint32(i)})
		}
	}
	if turn >= 0 {
		keys = append(keys, gguf.Key{Name: "tokenizer.ggml.eot_token_id", Value: uint32(turn)})
	}
	if len(others) > 0 {
		keys = append(keys, gguf.Key{Name: "tokenizer.ggml.eom_token_id", Value: uint32(others[0])})
	}
	keys = append(keys, allEnds(eos, turn, others)...)
	keys = append(keys,
		gguf.Key{Name: "tokenizer.ggml.add_bos_token", Value: len(around.before) > 0}, gguf.Key{Name: "tokenizer.ggml.add_eos_token", Value: len(around.behind) > 0})
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

// said is a file of the tokenizer's directory; empty where there is none.
func (m Model) said(name string) (*config, error) {
	raw, err := m.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &config{fields: map[string]any{}}, nil
	}
	if err != nil {
		return nil, err
	}
	said, err := parseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return said, nil
}

// ids are a token's number or a list of such.
func (c *config) ids(key string) []int {
	if ids := c.integers(key); ids != nil || c.fields[key] == nil {
		return ids
	}
	return []int{int(c.number(key, -1))}
}

// turn is the token that ends an answer; -1: none is known. It is the one that the template writes there, one with a name that says so, or one by
// which generation_config.json ends an answer besides the one that ends a text.
func (m Model) turn(tokens []string, eos int, drawn []int) int {
	if len(m.Ends) > 0 && m.Ends[0] != eos && m.Ends[0] >= 0 && m.Ends[0] < len(tokens) {
		return m.Ends[0]
	}
	if i := named(tokens, func(int) bool { return true }, turnEnds); i >= 0 {
		return i
	}
	for _, id := range drawn {
		if id != eos && id >= 0 && id < len(tokens) {
			return id
		}
	}
	return -1
}

// allEnds is Ollama's list of the tokens that end an answer, where there are more than llama.cpp has keys for.
func allEnds(eos, turn int, others []int) []gguf.Key {
	all := []int32{}
	for _, id := range append([]int{eos, turn}, others...) {
		if id >= 0 && !slices.Contains(all, int32(id)) {
			all = append(all, int32(id))
		}
	}
	if len(all) <= 3 {
		return nil
	}
	return []gguf.Key{{Name: "tokenizer.ggml.eos_token_ids", Value: all}}
}

// border is the tokens before a text and behind it.
type border struct{ before, behind []int }

// around is what the post-processor puts around a text, which is all that is put there: beside a tokenizer.json, add_bos_token and add_eos_token of
// tokenizer_config.json say nothing.
func (t *tokenizerFile) around() (b border, err error) {
	type processor struct {
		Type   string `json:"type"`
		Single []struct {
			Special *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
		} `json:"single"`
		Tokens map[string]struct {
			IDs []int `json:"ids"`
		} `json:"special_tokens"`
	}
	var p struct {
		processor
		Of []processor `json:"processors"`
	}
	if t.PostProcess == nil {
		return b, nil
	}
	if err := json.Unmarshal(t.PostProcess, &p); err != nil {
		return b, err
	}
	for _, one := range append(p.Of, p.processor) {
		if one.Type != "TemplateProcessing" {
			continue
		}
		text, before := false, []int(nil)
		for _, piece := range one.Single {
			switch {
			case piece.Special == nil:
				text = true
			case text:
				b.behind = append(b.behind, one.Tokens[piece.Special.ID].IDs...)
			default:
				before = append(before, one.Tokens[piece.Special.ID].IDs...)
			}
		}
		b.before = append(before, b.before...)
	}
	return b, nil
}

// check refuses what llama.cpp does not put around a text.
func (b border) check(size int) error {
	for _, side := range []struct {
		name string
		ids  []int
	}{{"before", b.before}, {"behind", b.behind}} {
		if len(side.ids) > 1 {
			return fmt.Errorf("found tokens %v %s a text, wanted one at most: llama.cpp puts no more there", side.ids, side.name)
		}
		if len(side.ids) == 1 && (side.ids[0] < 0 || side.ids[0] >= size) {
			return fmt.Errorf("found token %d %s a text, wanted 0 to %d", side.ids[0], side.name, size-1)
		}
	}
	return nil
}
