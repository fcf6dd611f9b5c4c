package plan

import (
	"fmt"
	"strings"

	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/text/tokenizer"
)

// Values of data.tokens.
const (
	AutoTokens      = "auto"
	ByteTokens      = "bytes"
	TokenizerTokens = "tokenizer"
)

// Tokens are how text becomes tokens, and its tokens text.
type Tokens struct {
	Kind      string               // of texts.Config.Tokens; "": nobody looked, of a plan by config.json alone
	Path      string               // of the tokenizer; "": text is bytes
	Own       bool                 // it is that of model.from, which nobody has named
	Tokenizer *tokenizer.Tokenizer // nil: there is none, or it cannot be read and nothing needs it
	Closing   *int32               // the last token of conversations, by their template; nil: none is known
}

// TokensOf says by which tokenizer a run file reads: own is the directory of model.from where that has one, else "".
func TokensOf(spec *runfile.Config, own string) (t Tokens, err error) {
	d := spec.Data
	t = Tokens{Kind: d.Tokens, Path: d.Tokenizer}
	if t.Path == "" && own != "" {
		t.Path, t.Own = own, true
	}
	if t.Kind == AutoTokens {
		t.Kind = TokenizerTokens
		if t.Path == "" {
			t.Kind = ByteTokens
		}
	}
	switch {
	case t.Kind == ByteTokens && d.Tokenizer != "":
		err = spec.Invalid("data.tokenizer", d.Tokenizer, "none with data.tokens bytes")
	case t.Kind == ByteTokens && d.Layout.End != nil && !spec.HasDocuments():
		err = spec.Invalid("data.eos", fmt.Sprint(*d.Layout.End), "null without documents (data.jsonl) or a tokenizer")
	case t.Path == "" && t.Kind == TokenizerTokens:
		err = spec.Invalid("data.tokens", t.Kind, "data.tokenizer, or a directory in model.from that has tokenizer.json or tokenizer.model")
	}
	return t, err
}

// layTokens lays what was found over data.tokens and data.tokenizer_fingerprint: a run records it, and is held to it.
func (p *Plan) layTokens(t Tokens) {
	if t.Kind == "" {
		return
	}
	from := p.Spec.Origin("data.tokens")
	if p.Spec.Data.Tokens == AutoTokens && t.Kind == TokenizerTokens {
		from = "model.from"
		if !t.Own {
			from = "data.tokenizer"
		}
	}
	p.Spec.Put("data.tokens", t.Kind, from)
	if t.Tokenizer != nil {
		p.Spec.Put("data.tokenizer_fingerprint", t.Tokenizer.Fingerprint(), "data.tokenizer")
	}
}

// vocabStep is what a new model's vocabulary is a multiple of: kernels work in such steps, and rows of no token cost
// little.
const vocabStep = 64

// vocabulary is that of a new model where nobody has said it.
func (t Tokens) vocabulary(spec *runfile.Config) int {
	if t.Tokenizer != nil && t.Kind != ByteTokens {
		return (t.Tokenizer.VocabSize() + vocabStep - 1) / vocabStep * vocabStep
	}
	vocab := map[string]int{ByteTokens: 256, "u16": 1 << 16}[t.Kind]
	if end := spec.Data.Layout.End; end != nil && t.Kind == ByteTokens {
		vocab = max(vocab, *end+1)
	}
	return vocab
}

// Fit refuses a model with fewer rows than the tokenizer has tokens; where names the model in messages. A tokenizer may
// have special tokens for images beyond the rows of a model that sees none, as Gemma 3 has, and one for padding, which
// no text has.
func (t Tokens) Fit(def model.Definition, where string) error {
	if t.Tokenizer == nil {
		return nil
	}
	special := map[int32]bool{}
	for _, id := range t.Tokenizer.Special() {
		special[id] = true
	}
	for id := int32(def.Vocab()); int(id) < t.Tokenizer.VocabSize(); id++ {
		token, err := t.Tokenizer.Token(id)
		if err == nil && !(special[id] && (strings.Contains(token, "image") || token == t.Tokenizer.Padding())) {
			from := t.Tokenizer.Source(id)
			if from != "" {
				from = ", from " + from
			}
			return fmt.Errorf("%s: found a vocabulary of %d, wanted %d or more, as tokenizer %s has them (%q is %d%s)",
				where, def.Vocab(), t.Tokenizer.VocabSize(), t.Path, token, id, from)
		}
	}
	return nil
}
