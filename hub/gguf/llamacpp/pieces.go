package llamacpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"gputrain/hub/gguf"
	"gputrain/internal/sentencepiece"
)

// spaceMark stands for a space in a tokenizer of SentencePiece's kind.
const spaceMark = "▁"

// pieceKeys are the keys of a tokenizer that merges by scores.
func pieceKeys(tokens []string, kinds []int32, scores []float32, prefix bool) []gguf.Key {
	return []gguf.Key{
		{Name: "tokenizer.ggml.model", Value: "llama"},
		{Name: "tokenizer.ggml.pre", Value: "default"},
		{Name: "tokenizer.ggml.tokens", Value: tokens},
		{Name: "tokenizer.ggml.token_type", Value: kinds},
		{Name: "tokenizer.ggml.scores", Value: scores},
		{Name: "tokenizer.ggml.add_space_prefix", Value: prefix},
		{Name: "tokenizer.ggml.remove_extra_whitespaces", Value: false},
	}
}

// pieces are the keys of a tokenizer.json that was made of a SentencePiece model: of characters, with bytes for those it lacks.
func (t *tokenizerFile) pieces(m Model, size int) ([]gguf.Key, error) {
	prefix, err := t.marks(m)
	if err != nil {
		return nil, err
	}
	tokens, kinds, err := t.tokens(size)
	if err != nil {
		return nil, err
	}
	bytes := 0
	for i, text := range tokens {
		switch _, in := t.Model.Vocab[text]; {
		case !in:
		case text == t.Model.Unknown:
			kinds[i] = unknownToken
		case isByte(text):
			kinds[i] = byteToken
			bytes++
		}
	}
	if bytes != 256 {
		return nil, fmt.Errorf("model: vocab: found %d of the tokens <0x00> to <0xFF>, wanted all 256: llama.cpp writes unknown characters in bytes", bytes)
	}
	scores, err := t.scores(m, tokens)
	return pieceKeys(tokens, kinds, scores, prefix), err
}

func isByte(text string) bool {
	var b byte
	n, err := fmt.Sscanf(text, "<0x%02X>", &b)
	return n == 1 && err == nil && text == fmt.Sprintf("<0x%02X>", b)
}

// marks says whether a space is put before a text, and refuses what llama.cpp does not do to one: it marks spaces, and nothing else.
func (t *tokenizerFile) marks(m Model) (prefix bool, err error) {
	norms, pres := flat(t.Normalizer, func(s textStage) []textStage { return s.Norms }), flat(t.PreTokenizer, func(s textStage) []textStage { return s.Stages })
	marked := false
	for _, n := range norms {
		switch {
		case n.Type == "Prepend" && n.Prepend == spaceMark:
			prefix = true
		case n.Type == "Replace" && n.Pattern.String == " " && n.Content == spaceMark:
			marked = true
		default:
			return false, fmt.Errorf("normalizer: found %s, wanted Prepend and Replace of a space by %s: llama.cpp takes a text as it is", n.Type, spaceMark)
		}
	}
	for _, p := range pres {
		switch {
		case p.Type == "Split" && p.Pattern.String == " " && marked: // there is none left
		case p.Type == "Metaspace" && p.Replacement == spaceMark && p.Splits != nil && !*p.Splits:
			marked, prefix = true, prefix || p.Scheme == "always" || p.Scheme == "first" || p.Scheme == "" && p.Prefix
			if p.Scheme == "first" && m.Tell != nil {
				m.Tell("the tokenizer puts a space before a text alone (prepend_scheme first), llama.cpp also behind special tokens: texts without them have the same ids")
			}
		default:
			return false, fmt.Errorf("pre_tokenizer: found %s, wanted none, or Metaspace without splits: llama.cpp merges across words", p.Type)
		}
	}
	if !marked {
		return false, errors.New("normalizer: found none that replaces spaces, wanted one")
	}
	return prefix, nil
}

// flat are the parts of a sequence, or the one that there is.
func flat(s *textStage, parts func(textStage) []textStage) []textStage {
	if s == nil {
		return nil
	}
	if s.Type == "Sequence" {
		return parts(*s)
	}
	return []textStage{*s}
}

// scores orders tokens as merges do: llama.cpp merges the two neighbours whose whole has the highest score, whichever two they are.
func (t *tokenizerFile) scores(m Model, tokens []string) ([]float32, error) {
	merges, err := t.merges()
	if err != nil {
		return nil, err
	}
	first, listed := map[string]int{}, map[[2]string]bool{}
	last := ""
	for rank, merge := range merges {
		left, right, _ := strings.Cut(merge, " ")
		listed[[2]string{left, right}] = true
		whole := left + right
		if _, seen := first[whole]; seen && last != whole {
			return nil, fmt.Errorf("merges: %d: found %q, whose whole another merge makes earlier, with others between, wanted one place for each whole: llama.cpp ranks wholes", rank, merge)
		}
		if _, seen := first[whole]; !seen {
			first[whole] = len(first)
		}
		last = whole
	}
	scores, unlisted := make([]float32, len(tokens)), 0
	for i, text := range tokens {
		rank, ok := first[text]
		if !ok {
			rank = len(first)
		}
		scores[i] = -float32(rank)
		if _, in := t.Model.Vocab[text]; !in || isByte(text) {
			continue
		}
		for at := range text {
			_, left := t.Model.Vocab[text[:at]]
			_, right := t.Model.Vocab[text[at:]]
			if left && right && at > 0 && !listed[[2]string{text[:at], text[at:]}] {
				unlisted++
			}
		}
	}
	if unlisted > 0 && m.Tell != nil {
		m.Tell(fmt.Sprintf("%d pairs of tokens make another token without a merge that says so: llama.cpp merges them all the same, so some words have other ids there", unlisted))
	}
	return scores, nil
}

// modelVocabulary are the keys of a tokenizer.model alone.
func modelVocabulary(m Model, c *config, size int) ([]gguf.Key, error) {
	raw, err := m.Read("tokenizer.model")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("found neither tokenizer.json nor tokenizer.model, wanted one: llama.cpp cannot run a model without a tokenizer")
	}
	if err != nil {
		return nil, err
	}
	keys, around, err := sentencePieces(raw, size)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.model: %w", err)
	}
	tokens, _ := keys[tokensAt].Value.([]string)
	kinds, _ := keys[tokensAt+1].Value.([]int32)
	strips, err := addedBehind(m, tokens, kinds)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: %w", err)
	}
	said, err := m.said("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	if puts, told := said.fields["add_bos_token"].(bool); told && !puts {
		around.before = nil
	}
	if puts, _ := said.fields["add_eos_token"].(bool); !puts {
		around.behind = nil
	}
	special, err := special(m, c, tokens, kinds, around)
	return append(append(keys, special...), gguf.Key{Name: nameKey, Value: phiName(m.Name, strips)}), err
}

// addedBehind adds the tokens that tokenizer_config.json has besides the pieces, and says whether they take the spaces behind them.
func addedBehind(m Model, tokens []string, kinds []int32) (strips bool, err error) {
	var said struct {
		Added map[string]addedToken `json:"added_tokens_decoder"`
	}
	raw, err := m.Read("tokenizer_config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &said)
	}
	if err != nil {
		return false, err
	}
	t := &tokenizerFile{}
	for key, a := range said.Added {
		id, err := strconv.Atoi(key)
		if err == nil && id >= len(tokens) && a.forImages() {
			continue
		}
		if err != nil || id < 0 || id >= len(tokens) {
			return false, fmt.Errorf("found %.20q for %.80q, wanted an id below the %d of the model", key, a.Content, len(tokens))
		}
		if t.Added = append(t.Added, a); kinds[id] == unusedToken {
			tokens[id], kinds[id] = a.Content, map[bool]int32{true: controlToken, false: userToken}[a.Special]
		}
	}
	return t.stripsRight(m.Tell), nil
}

// sentencePieces are the keys of a SentencePiece model, and its tokens that begin and end a text.
func sentencePieces(raw []byte, size int) (_ []gguf.Key, around border, err error) {
	m, err := sentencepiece.Parse(raw)
	switch {
	case err != nil:
		return nil, around, err
	case m.Squeeze:
		return nil, around, errors.New("normalizer_spec: remove_extra_whitespaces: found true, wanted false: llama.cpp leaves spaces as they are")
	case len(m.Pieces) > size:
		return nil, around, fmt.Errorf("found %d pieces, wanted at most the %d of the model", len(m.Pieces), size)
	}
	tokens, kinds := unused(size)
	scores, bytes := make([]float32, size), 0
	for i, p := range m.Pieces {
		tokens[i], kinds[i], scores[i] = p.Text, int32(p.Kind), p.Score
		switch p.Kind {
		case sentencepiece.UserDefined:
			tokens[i] = strings.ReplaceAll(p.Text, spaceMark, " ") // llama.cpp finds such a token before it marks spaces
		case sentencepiece.Byte:
			bytes++
		}
	}
	if bytes != 256 {
		return nil, around, fmt.Errorf("found %d pieces for bytes, wanted 256: llama.cpp writes unknown characters in bytes", bytes)
	}
	if m.BOS >= 0 {
		around.before = []int{int(m.BOS)}
	}
	if m.EOS >= 0 {
		around.behind = []int{int(m.EOS)}
	}
	return pieceKeys(tokens, kinds, scores, m.DummyPrefix), around, nil
}
