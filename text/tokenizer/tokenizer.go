package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"gputrain/internal/stranger"
)

// A Tokenizer turns text into ids and back. It does not change once it is open.
type Tokenizer struct {
	kind        string
	vocabulary  *vocabulary
	raw, normal *finder // added tokens of the text as it stands, and of the normalized one
	normalizer  normalizer
	stages      []preTokenizer
	model       *bpe
	post        post
	decoders    []decoder
	special     map[int32]bool
	cuts        cuts

	from        stranger.Files // that it was read from
	files       []string
	added       extended
	says        []string          // how the files beside it change the tokens of texts
	roles       map[string]string // tokens by the keys that name them, such as eos_token
	alone       string            // fingerprint of the tokenizer's file
	fingerprint string            // of that and of says
	end         int32             // that is put behind a text; -1: none
	ends        []int32           // that end one

	encoders sync.Pool
}

// parsed is what a file says of a tokenizer, whatever its format.
type parsed struct {
	kind       string
	vocabulary *vocabulary
	added      extended
	normalizer normalizer
	stages     []preTokenizer
	post       post
	decoders   []decoder
}

// build makes a tokenizer of what a file says.
func build(p *parsed) (*Tokenizer, error) {
	t := &Tokenizer{
		kind: p.kind, vocabulary: p.vocabulary, raw: newFinder(), normal: newFinder(), normalizer: p.normalizer,
		stages: p.stages, post: p.post, decoders: p.decoders, special: map[int32]bool{},
		added: p.added, says: p.added.says,
	}
	if err := p.vocabulary.add(p.added.all); err != nil {
		return nil, err
	}
	if err := p.post.check(len(p.vocabulary.tokens)); err != nil {
		return nil, err
	}
	if err := p.checkSteps(); err != nil {
		return nil, err
	}
	may := newAllowance(0) // of all added tokens
	for _, a := range p.added.all {
		t.special[a.id] = t.special[a.id] || a.special
		if a.hidden {
			continue
		}
		if !a.normalized {
			if err := t.raw.add(a, a.content); err != nil {
				return nil, err
			}
			continue
		}
		may.add(len(a.content))
		called := span{text: a.content, may: may}
		if t.normalizer != nil && !a.asIs {
			if err := t.normalizer.normalize(&called); err != nil {
				return nil, fmt.Errorf("added_tokens: %s: normalizer: %w", excerpt(a.content), err)
			}
		}
		if called.text == "" {
			return nil, fmt.Errorf("added_tokens: %s: found nothing of it once normalized, wanted a text to look for", excerpt(a.content))
		}
		if err := t.normal.add(a, called.text); err != nil {
			return nil, err
		}
	}
	if t.decoders == nil {
		t.decoders = []decoder{withSpaces{}}
	}
	t.model = newBPE(p.vocabulary, t.readsBytes())
	t.stages = simpler(t.stages, t.normalizer)
	t.cuts = newCuts(t)
	t.encoders.New = func() any { return newEncoder(t) }
	return t, nil
}

// mostSteps bounds the parts of a normalizer, a pre-tokenizer and a decoder: each may look at the whole of a text.
const mostSteps = 1000

// checkSteps refuses more steps than any tokenizer needs.
func (p *parsed) checkSteps() error {
	normalizers := 0
	each(p.normalizer, func(normalizer) { normalizers++ })
	for _, part := range []struct {
		name  string
		steps int
	}{{"normalizer", normalizers}, {"pre_tokenizer", len(p.stages)}, {"decoder", len(p.decoders)}} {
		if part.steps > mostSteps {
			return fmt.Errorf("%s: found %d steps, wanted at most %d", part.name, part.steps, mostSteps)
		}
	}
	return nil
}

// readsBytes says whether the last pre-tokenizer leaves bytes to the model, and if so makes it leave them as they are. Where bytes fall
// back to tokens of their own, those are the bytes of the alphabet's characters, which have to be written for that.
func (t *Tokenizer) readsBytes() bool {
	n := len(t.stages)
	if n == 0 || t.vocabulary.byteFallback {
		return false
	}
	last, ok := t.stages[n-1].(byteLevel)
	if ok {
		last.plain = true
		t.stages = append(slices.Clone(t.stages[:n-1]), last)
	}
	return ok
}

// simpler leaves out pre-tokenizers that do nothing, and says others in the words of a split.
func simpler(stages []preTokenizer, n normalizer) (kept []preTokenizer) {
	for _, s := range stages {
		switch s := s.(type) {
		case byteLevel:
			switch {
			case !s.plain || s.prefix:
				kept = append(kept, s)
			case s.words:
				kept = append(kept, split{pattern: gpt2, behavior: "Isolated"})
			}
		case split:
			if l, ok := s.pattern.(literal); !ok || !gone(n, string(l)) || s.invert {
				kept = append(kept, s)
			}
		default:
			kept = append(kept, s)
		}
	}
	return kept
}

// gone says whether no normalized text has what is looked for, because the last normalizer replaces it.
func gone(n normalizer, text string) bool {
	var last normalizer
	each(n, func(one normalizer) { last = one })
	r, ok := last.(replace)
	if !ok {
		return false
	}
	l, ok := r.pattern.(literal)
	return ok && string(l) == text && len(text) == 1 && strings.IndexByte(r.text, text[0]) < 0
}

// VocabSize is one more than the largest id. A model may have more rows than that, never fewer.
func (t *Tokenizer) VocabSize() int { return len(t.vocabulary.tokens) }

// Unused is the number of ids below VocabSize that no token has.
func (t *Tokenizer) Unused() (n int) {
	for _, token := range t.vocabulary.tokens {
		if token == "" {
			n++
		}
	}
	return n
}

// Kind is a word or two on what the tokenizer is.
func (t *Tokenizer) Kind() string { return t.kind }

// Merges is the number of its merges.
func (t *Tokenizer) Merges() int { return len(t.vocabulary.merges) }

// Token is the text of an id in the vocabulary, as its file writes it.
func (t *Tokenizer) Token(id int32) (string, error) {
	if id < 0 || int(id) >= t.VocabSize() {
		return "", fmt.Errorf("found id %d, wanted 0 to %d", id, t.VocabSize()-1)
	}
	if t.vocabulary.tokens[id] == "" {
		return "", fmt.Errorf("found id %d, which no token of the vocabulary has", id)
	}
	return t.vocabulary.tokens[id], nil
}

// ID is the id of a token of the vocabulary, or of an added one.
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.vocabulary.ids[token]; ok {
		return id, true
	}
	id := slices.Index(t.vocabulary.tokens, token)
	return int32(id), id >= 0 && token != ""
}

// Special lists the ids of special tokens.
func (t *Tokenizer) Special() (ids []int32) {
	for id, is := range t.special {
		if is {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// EndTokens are the ids that end a text: those of the files beside the tokenizer, in the order in which generation_config.json, config.json and
// tokenizer_config.json (or special_tokens_map.json) name them. Where none does, it is the special token <|endoftext|>, <|end_of_text|>, </s> or
// <eos>, the first of these that there is.
func (t *Tokenizer) EndTokens() []int32 { return slices.Clone(t.ends) }

// EndOfText is the id that training puts behind a document: the eos_token of tokenizer_config.json, else the first of EndTokens.
func (t *Tokenizer) EndOfText() (id int32, ok bool) { return t.end, t.end >= 0 }

// Around is what Options.Special puts before a text and behind it.
func (t *Tokenizer) Around() (before, behind []int32) {
	return slices.Clone(t.post.around.before), slices.Clone(t.post.around.behind)
}

// Files are the paths of the files that belong to the tokenizer. A model that is written elsewhere takes them along byte for byte, as
// other programs know a tokenizer by them.
func (t *Tokenizer) Files() []string { return slices.Clone(t.files) }

// Fingerprint is the SHA-256 of the file that says how text becomes ids, in hexadecimal digits; where files beside it change the tokens of texts,
// of that and of how they do.
func (t *Tokenizer) Fingerprint() string { return t.fingerprint }
