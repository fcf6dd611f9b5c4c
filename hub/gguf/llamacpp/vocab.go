package llamacpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gputrain/hub/gguf"
	"gputrain/internal/sentencepiece"
)

// Kinds of tokens: those of SentencePiece's pieces.
const (
	normalToken  = int32(sentencepiece.Normal)
	unknownToken = int32(sentencepiece.Unknown)
	controlToken = int32(sentencepiece.Control)
	userToken    = int32(sentencepiece.UserDefined)
	unusedToken  = int32(sentencepiece.Unused)
	byteToken    = int32(sentencepiece.Byte)
)

// tokenizerFile is what is read of a tokenizer.json.
type tokenizerFile struct {
	Added        []addedToken    `json:"added_tokens"`
	Normalizer   *textStage      `json:"normalizer"`
	PreTokenizer *textStage      `json:"pre_tokenizer"`
	PostProcess  json.RawMessage `json:"post_processor"`
	Model        struct {
		Type         string            `json:"type"`
		ByteFallback bool              `json:"byte_fallback"`
		IgnoreMerges bool              `json:"ignore_merges"`
		Unknown      string            `json:"unk_token"`
		Vocab        map[string]int    `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
	} `json:"model"`
}

// addedToken is one that is looked for in texts.
type addedToken struct {
	ID      int    `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
	Left    bool   `json:"lstrip"`
	Right   bool   `json:"rstrip"`
	Single  bool   `json:"single_word"`
}

// forImages tells special tokens that a tokenizer may have beyond the rows of a model that sees no images, as Gemma 3's has.
func (a addedToken) forImages() bool { return a.Special && strings.Contains(a.Content, "image") }

// textStage is a pre-tokenizer or a normalizer.
type textStage struct {
	Type     string      `json:"type"`
	Stages   []textStage `json:"pretokenizers"`
	Norms    []textStage `json:"normalizers"`
	Behavior string      `json:"behavior"`
	Invert   bool        `json:"invert"`
	Pattern  struct {
		Regex  string `json:"Regex"`
		String string `json:"String"`
	} `json:"pattern"`
	UseRegex    *bool  `json:"use_regex"`
	Single      bool   `json:"individual_digits"`
	Prefix      bool   `json:"add_prefix_space"`
	Prepend     string `json:"prepend"`
	Content     string `json:"content"`
	Replacement string `json:"replacement"`
	Scheme      string `json:"prepend_scheme"`
	Splits      *bool  `json:"split"`
}

// pre is what llama.cpp calls the way in which a byte-level tokenizer splits text.
func (t *tokenizerFile) pre() (string, error) {
	stages := flat(t.PreTokenizer, func(s textStage) []textStage { return s.Stages })
	var said []string
	if len(stages) == 0 || stages[len(stages)-1].Type != "ByteLevel" {
		return "", errors.New("pre_tokenizer: found no ByteLevel at the end, wanted one")
	}
	for _, s := range stages {
		switch {
		case s.Type == "Split" && (s.Behavior != "Isolated" || s.Invert):
			return "", fmt.Errorf("pre_tokenizer: Split: found behavior %s, invert %v, wanted Isolated, false", s.Behavior, s.Invert)
		case s.Type == "Split":
			said = append(said, s.Pattern.Regex)
		case s.Type == "Digits" && s.Single:
			said = append(said, "digits")
		case s.Type == "ByteLevel" && s.Prefix:
			return "", errors.New("pre_tokenizer: ByteLevel: add_prefix_space: found true, wanted false: llama.cpp adds no space")
		case s.Type == "ByteLevel" && (s.UseRegex == nil || *s.UseRegex):
			said = append(said, gpt2Split)
		case s.Type != "ByteLevel":
			said = append(said, s.Type)
		}
	}
	split := strings.Join(said, " then ")
	if split == gpt2Older {
		split = gpt2Split
	}
	for _, s := range splits {
		if s.text == split && s.whole == t.Model.IgnoreMerges {
			return s.name, nil
		}
	}
	return "", fmt.Errorf("pre_tokenizer: found %.120q with ignore_merges %v, wanted the splits of GPT-2, GPT-4o, Llama 3, Mistral Nemo, OLMo 2, Qwen 2, Qwen 3.5 or SmolLM: llama.cpp knows splits by name alone, and others are not written", split, t.Model.IgnoreMerges)
}

// vocabulary are the keys of a tokenizer with ids below size.
func vocabulary(m Model, c *config, size int) ([]gguf.Key, error) {
	raw, err := m.Read("tokenizer.json")
	if errors.Is(err, fs.ErrNotExist) {
		return modelVocabulary(m, c, size)
	}
	if err != nil {
		return nil, err
	}
	t := &tokenizerFile{}
	err = json.Unmarshal(raw, t)
	keys := []gguf.Key{}
	switch {
	case err != nil:
	case t.Model.Type != "BPE":
		err = fmt.Errorf("model: found the type %s, wanted BPE: others are not written as GGUF", t.Model.Type)
	case t.Model.ByteFallback:
		keys, err = t.pieces(m, size)
	default:
		keys, err = t.byteLevel(m, size)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	tokens, _ := keys[tokensAt].Value.([]string)
	kinds, _ := keys[tokensAt+1].Value.([]int32)
	around, err := t.around()
	if err == nil {
		err = around.check(size)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: post_processor: %w", err)
	}
	special, err := special(m, c, tokens, kinds, around)
	return append(append(keys, special...), gguf.Key{Name: nameKey, Value: phiName(m.Name, t.stripsRight(m.Tell))}), err
}

// nameKey is the name of a model, which tells llama.cpp something of its tokenizer.
const nameKey = "general.name"

// tokensAt is where the texts are among the first keys of a tokenizer; their kinds come next.
const tokensAt = 2

// byteLevel are the keys of a tokenizer that merges bytes.
func (t *tokenizerFile) byteLevel(m Model, size int) ([]gguf.Key, error) {
	if n := t.Normalizer; n != nil && n.Type != "NFC" {
		return nil, fmt.Errorf("normalizer: found %s, wanted none or NFC: llama.cpp takes a text as it is", n.Type)
	}
	if t.Normalizer != nil && m.Tell != nil {
		m.Tell("the tokenizer composes letters and accents (NFC), which llama.cpp leaves to whoever writes the text: texts in NFC have the same ids")
	}
	pre, err := t.pre()
	if err != nil {
		return nil, err
	}
	tokens, kinds, err := t.tokens(size)
	if err != nil {
		return nil, err
	}
	merges, err := t.merges()
	return []gguf.Key{
		{Name: "tokenizer.ggml.model", Value: "gpt2"},
		{Name: "tokenizer.ggml.pre", Value: pre},
		{Name: "tokenizer.ggml.tokens", Value: tokens},
		{Name: "tokenizer.ggml.token_type", Value: kinds},
		{Name: "tokenizer.ggml.merges", Value: merges},
	}, err
}

// tokens are the texts of all ids, and their kinds. Ids that the tokenizer lacks are there for the model's sake.
func (t *tokenizerFile) tokens(size int) ([]string, []int32, error) {
	tokens, kinds := unused(size)
	set := func(id int, text string, kind int32) error {
		if id < 0 || id >= size {
			return fmt.Errorf("token %q: found id %d, wanted one below the %d of the model", text, id, size)
		}
		tokens[id], kinds[id] = text, kind
		return nil
	}
	for text, id := range t.Model.Vocab {
		if err := set(id, text, normalToken); err != nil {
			return nil, nil, err
		}
	}
	for _, a := range t.Added {
		if a.ID >= size && a.forImages() {
			continue
		}
		kind := userToken
		if a.Special {
			kind = controlToken
		}
		if err := set(a.ID, a.Content, kind); err != nil {
			return nil, nil, err
		}
	}
	return tokens, kinds, nil
}

// unused are ids that no text has, there for the model's sake.
func unused(size int) (tokens []string, kinds []int32) {
	tokens, kinds = make([]string, size), make([]int32, size)
	for i := range tokens {
		tokens[i], kinds[i] = fmt.Sprintf("[PAD%d]", i), unusedToken
	}
	return tokens, kinds
}

// merges are pairs with a space between: the older form of tokenizer.json.
func (t *tokenizerFile) merges() ([]string, error) {
	out := make([]string, len(t.Model.Merges))
	for i, raw := range t.Model.Merges {
		var pair [2]string
		if json.Unmarshal(raw, &out[i]) == nil {
			continue
		}
		if err := json.Unmarshal(raw, &pair); err != nil {
			return nil, fmt.Errorf("merges: %d: found %.80s, wanted a pair of texts", i, raw)
		}
		if strings.Contains(pair[0]+pair[1], " ") {
			return nil, fmt.Errorf("merges: %d: found a space in %q, which GGUF cannot tell from the one between the two", i, pair)
		}
		out[i] = pair[0] + " " + pair[1]
	}
	return out, nil
}
