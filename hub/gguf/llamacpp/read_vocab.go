package llamacpp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gputrain/internal/sentencepiece"
)

// vocab are the keys of a tokenizer.
func (d *Directory) vocab() facts { return facts{d.file, "tokenizer.ggml."} }

// texts are all tokens and their kinds.
func (d *Directory) texts() (tokens []string, kinds []int32, err error) {
	v, _ := d.file.Value("tokenizer.ggml.tokens")
	tokens, ok := v.([]string)
	if !ok || len(tokens) == 0 {
		return nil, nil, fmt.Errorf("key tokenizer.ggml.tokens: found none, wanted a list of texts")
	}
	if embedding, ok := d.file.Info("token_embd.weight"); ok && embedding.Shape[0] < len(tokens) {
		return nil, nil, fmt.Errorf("key tokenizer.ggml.tokens: found %d, wanted at most %d, the rows of token_embd.weight: it is another model's", len(tokens), embedding.Shape[0])
	}
	v, said := d.file.Value("tokenizer.ggml.token_type")
	kinds, _ = v.([]int32)
	if unsigned, ok := v.([]uint32); ok {
		for _, k := range unsigned {
			kinds = append(kinds, int32(k))
		}
	}
	if !said {
		kinds = slices.Repeat([]int32{normalToken}, len(tokens))
	}
	if len(kinds) != len(tokens) {
		return nil, nil, fmt.Errorf("key tokenizer.ggml.token_type: found %d, wanted one for each of %d tokens", len(kinds), len(tokens))
	}
	return tokens, kinds, nil
}

// is refuses a tokenizer of another kind.
func (d *Directory) is(kind string) error {
	if found := d.vocab().text("model"); found != kind {
		return fmt.Errorf("key tokenizer.ggml.model: found %q, wanted gpt2 or llama: others are not read", found)
	}
	return nil
}

// split is how a byte-level tokenizer splits text.
func (d *Directory) split() (split, bool) {
	pre := d.vocab().text("pre")
	at := slices.IndexFunc(splits, func(s split) bool { return s.name == pre })
	if at < 0 {
		return split{}, false
	}
	return splits[at], true
}

// byteLevel is the tokenizer.json of a byte-level tokenizer.
func (d *Directory) byteLevel() ([]byte, error) {
	if err := d.is("gpt2"); err != nil {
		return nil, err
	}
	tokens, kinds, err := d.texts()
	if err != nil {
		return nil, err
	}
	v, _ := d.file.Value("tokenizer.ggml.merges")
	merges, ok := v.([]string)
	if !ok {
		return nil, fmt.Errorf("key tokenizer.ggml.merges: found none, wanted a list of pairs")
	}
	by, ok := d.split()
	if !ok {
		var names []string
		for _, s := range splits {
			names = append(names, s.name)
		}
		return nil, fmt.Errorf("key tokenizer.ggml.pre: found %q, wanted one of %s: how others split text is not known", d.vocab().text("pre"), strings.Join(names, ", "))
	}
	vocab, added := map[string]int{}, []map[string]any{}
	for id, text := range tokens {
		if _, twice := vocab[text]; twice || kinds[id] == unusedToken {
			continue
		}
		vocab[text] = id // added tokens too: they may have any id then
		if kinds[id] != normalToken && kinds[id] != byteToken {
			added = append(added, map[string]any{
				"id": id, "content": text, "special": kinds[id] != userToken, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
			})
		}
	}
	file := map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": preTokenizer(by.text), "post_processor": d.around(tokens, by.begins),
		"decoder": byteLevelStage(true),
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false,
			"ignore_merges": by.whole, "vocab": vocab, "merges": merges,
		},
	}
	if by.composed {
		file["normalizer"] = map[string]any{"type": "NFC"}
	}
	return json.Marshal(file)
}

func byteLevelStage(regex bool) map[string]any {
	return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex}
}

// preTokenizer is a split as tokenizer.json has it.
func preTokenizer(split string) map[string]any {
	first := map[string]any{"type": "Split", "pattern": map[string]any{"Regex": split}, "behavior": "Isolated", "invert": false}
	switch split {
	case gpt2Split:
		return byteLevelStage(true)
	case digits + gpt2Split:
		first = map[string]any{"type": "Digits", "individual_digits": true}
	}
	return map[string]any{"type": "Sequence", "pretokenizers": []any{first, byteLevelStage(split == digits+gpt2Split)}}
}

// around is the post-processor that puts tokens before and behind a text; nil: none.
func (d *Directory) around(tokens []string, begins bool) any {
	single, special := []any{map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}}, map[string]any{}
	put := func(id int) any {
		special[tokens[id]] = map[string]any{"id": tokens[id], "ids": []int{id}, "tokens": []string{tokens[id]}}
		return map[string]any{"SpecialToken": map[string]any{"id": tokens[id], "type_id": 0}}
	}
	if id := d.vocab().id("bos_token_id"); d.vocab().flag("add_bos_token", begins) && id >= 0 && id < len(tokens) {
		single = append([]any{put(id)}, single...)
	}
	if id := d.vocab().id("eos_token_id"); d.vocab().flag("add_eos_token", false) && id >= 0 && id < len(tokens) {
		single = append(single, put(id))
	}
	if len(special) == 0 {
		return nil
	}
	pair := append(slices.Clone(single), map[string]any{"Sequence": map[string]any{"id": "B", "type_id": 1}})
	return map[string]any{"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}
}

// tokenizerConfig says which tokens have a meaning, and how conversations become text.
func (d *Directory) tokenizerConfig() ([]byte, error) {
	tokens, kinds, err := d.texts()
	if err != nil {
		return nil, err
	}
	c := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast"}
	pieces := d.vocab().text("model") == "llama"
	by, _ := d.split()
	c["add_bos_token"], c["add_eos_token"] = d.vocab().flag("add_bos_token", pieces || by.begins), d.vocab().flag("add_eos_token", false)
	for _, row := range specialTokens {
		if id := d.vocab().id(row[1] + "_token_id"); id >= 0 && id < len(tokens) && kinds[id] != unusedToken {
			c[row[0]+"_token"] = tokens[id]
		}
	}
	if n, ok := d.stated.integer("context_length"); ok {
		c["model_max_length"] = n
	}
	if pieces {
		c["tokenizer_class"], c["added_tokens_decoder"] = "LlamaTokenizer", d.looked(tokens, kinds)
	}
	const key = "tokenizer.chat_template"
	var named []map[string]string
	for _, k := range d.file.Keys() {
		if text, ok := k.Value.(string); ok && strings.HasPrefix(k.Name, key+".") {
			named = append(named, map[string]string{"name": strings.TrimPrefix(k.Name, key+"."), "template": text})
		}
	}
	switch text := (facts{d.file, "tokenizer."}).text("chat_template"); {
	case text != "" && named != nil:
		c["chat_template"] = append(named, map[string]string{"name": "default", "template": text})
	case text != "":
		c["chat_template"] = text
	}
	return json.Marshal(c)
}

// looked are the tokens of a tokenizer.model that are looked for in texts: a model alone does not say it.
func (d *Directory) looked(tokens []string, kinds []int32) map[string]any {
	strips := phi3.MatchString(facts{d.file, ""}.text(nameKey))
	out := map[string]any{}
	for id, text := range tokens {
		kind := kinds[id]
		if kind != controlToken && kind != userToken && kind != unknownToken {
			continue
		}
		marked := strings.ReplaceAll(text, " ", spaceMark)
		out[strconv.Itoa(id)] = map[string]any{
			"content": marked, "special": kind != userToken, "lstrip": false, "rstrip": strips && !slices.Contains(phi3Plain, text), "single_word": false,
			"normalized": kind == userToken && marked != text, // spaces are marked where it is looked for
		}
	}
	return out
}

// sentencePiece is the tokenizer.model of a tokenizer that merges by scores.
func (d *Directory) sentencePiece() ([]byte, error) {
	if err := d.is("llama"); err != nil {
		return nil, err
	}
	tokens, kinds, err := d.texts()
	if err != nil {
		return nil, err
	}
	v, _ := d.file.Value("tokenizer.ggml.scores")
	scores, _ := v.([]float32)
	if len(scores) != len(tokens) {
		return nil, fmt.Errorf("key tokenizer.ggml.scores: found %d, wanted one for each of %d tokens", len(scores), len(tokens))
	}
	m := &sentencepiece.Model{
		ByteFallback: slices.Contains(kinds, byteToken),
		UNK:          int32(d.vocab().id("unknown_token_id")), BOS: int32(d.vocab().id("bos_token_id")),
		EOS: int32(d.vocab().id("eos_token_id")), Pad: int32(d.vocab().id("padding_token_id")),
		DummyPrefix: d.vocab().flag("add_space_prefix", !d.family.plusOne), // Ollama leaves it out of Gemma's files
		Squeeze:     d.vocab().flag("remove_extra_whitespaces", false),
	}
	for i, text := range tokens {
		if kinds[i] == userToken {
			text = strings.ReplaceAll(text, " ", spaceMark)
		}
		m.Pieces = append(m.Pieces, sentencepiece.Piece{Text: text, Score: scores[i], Kind: uint64(kinds[i])})
	}
	return m.Bytes(), nil
}
