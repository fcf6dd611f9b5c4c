package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"gputrain/chat"
	"gputrain/checkpoint"
	"gputrain/data/texts"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/model"
	"gputrain/tokenizer"
	"gputrain/train"
	"gputrain/train/runfile"
)

// Values of data.tokens.
const (
	autoTokens      = "auto"
	byteTokens      = "bytes"
	tokenizerTokens = "tokenizer"
)

// Tokens is how the text of a run becomes tokens, and its tokens text.
type Tokens struct {
	Kind      string               // of texts.Config.Tokens
	Tokenizer *tokenizer.Tokenizer // nil: there is none, or text is bytes
	Path      string               // where that is
	Chats     texts.Chats          // how conversations become tokens
	// Companions are the files that checkpoints take along: those of the tokenizer, and how text is drawn from a model.
	Companions []checkpoint.Source

	files *hub.Bundle // at Path; nil: there are none
}

// tokensOf finds the tokenizer of a run file, with what its model is from (nil: from none), and lays what it has found
// over data.tokens and data.tokenizer_fingerprint: a run records it, and is held to it.
func tokensOf(cfg *runfile.Config, from *hub.Bundle, out io.Writer) (Tokens, error) {
	d := cfg.Data
	t := Tokens{Kind: d.Tokens, Path: d.Tokenizer}
	own := t.Path == "" && from != nil && tokenizer.Has(from)
	if own {
		t.Path, t.files = from.Path("."), from
	}
	if t.Kind == autoTokens {
		t.Kind = tokenizerTokens
		if t.Path == "" {
			t.Kind = byteTokens
		}
	}
	err := t.open(cfg, own, out)
	if !own {
		defer t.files.Close() // all is read by then
	}
	if err != nil {
		return Tokens{}, err
	}
	if t.Chats, err = t.chatsOf(cfg, from); err != nil {
		return Tokens{}, &UsageError{err}
	}
	if t.Path == "" && from != nil { // what is there all the same
		if t.Companions, err = Companions(from); err != nil {
			return Tokens{}, &UsageError{err}
		}
	}
	t.Companions = t.withTemplate(cfg)
	origin := cfg.Origin("data.tokens")
	if d.Tokens == autoTokens && t.Kind == tokenizerTokens {
		origin = "model.from"
		if !own {
			origin = "data.tokenizer"
		}
	}
	err = cfg.Lay("data.tokens", t.Kind, origin)
	if t.Tokenizer != nil && err == nil {
		err = cfg.Lay("data.tokenizer_fingerprint", t.Tokenizer.Fingerprint(), "data.tokenizer")
	}
	return t, err
}

// open opens the tokenizer and reads the files that go with it. own: it is that of the model's directory, which nobody has named.
func (t *Tokens) open(cfg *runfile.Config, own bool, out io.Writer) (err error) {
	invalid := func(key, found, wanted string) error {
		return &UsageError{fmt.Errorf("run file: %s (%s): found %s, wanted %s", key, cfg.Origin(key), found, wanted)}
	}
	switch {
	case t.Kind == byteTokens && cfg.Data.Tokenizer != "":
		return invalid("data.tokenizer", cfg.Data.Tokenizer, "none with data.tokens bytes")
	case t.Kind == byteTokens && cfg.Data.Layout.End != nil && !cfg.HasDocuments():
		return invalid("data.eos", fmt.Sprint(*cfg.Data.Layout.End), "null without documents (data.jsonl) or a tokenizer")
	case t.Kind == byteTokens:
		return nil
	case t.Path == "" && t.Kind == tokenizerTokens:
		return invalid("data.tokens", t.Kind, "data.tokenizer, or a directory in model.from that has tokenizer.json or tokenizer.model")
	case t.Path == "":
		return nil
	}
	if !own {
		if t.files, err = hub.OpenTokenizer(t.Path); err != nil {
			return &UsageError{err}
		}
	}
	tok, err := tokenizer.Open(t.files)
	switch {
	case err != nil && own && t.Kind != tokenizerTokens: // ids need none
		fmt.Fprintf(out, "gputrain: %v: samples are not written\n", err)
	case err != nil && own:
		return &UsageError{fmt.Errorf("%w: data.tokens=bytes reads text as bytes", err)}
	case err != nil:
		return &UsageError{err}
	default:
		if wanted := cfg.Data.TokenizerFingerprint; wanted != "" && !strings.HasPrefix(tok.Fingerprint(), wanted) {
			return invalid("data.tokenizer_fingerprint", wanted, fmt.Sprintf("%s, that of %s%s", tok.Fingerprint(), t.Path, since(tok, wanted)))
		}
		fmt.Fprintf(out, "gputrain: tokenizer %s: %s, %d tokens, fingerprint %.12s\n", t.Path, tok.Kind(), tok.VocabSize(), tok.Fingerprint())
		t.Tokenizer = tok
	}
	t.Companions, err = Companions(t.files)
	if err != nil {
		return &UsageError{err}
	}
	return nil
}

// since says what to do where a fingerprint is that of an earlier program, which gave the same texts other tokens.
func since(tok *tokenizer.Tokenizer, fingerprint string) string {
	says := tok.Since(fingerprint)
	if says == "" {
		return ""
	}
	return fmt.Sprintf(": the program that began the run read %s alone, and texts have other tokens now (%s): finish the run with that program, or begin anew",
		filepath.Base(tok.Files()[0]), says)
}

// explain makes the settings say why a run that was begun has another fingerprint of the same tokenizer.
func (t Tokens) explain(settings []train.Setting) []train.Setting {
	for i, s := range settings {
		if s.Key == "data.tokenizer_fingerprint" && t.Tokenizer != nil {
			settings[i].Why = func(found string) string { return since(t.Tokenizer, strings.Trim(found, `"`)) }
		}
	}
	return settings
}

// Companions are the files that go where a model goes, byte for byte, under the names by which other programs know
// them: of the first of some models or tokenizers that has any; nil is none.
func Companions(models ...*hub.Bundle) (out []checkpoint.Source, err error) {
	for _, b := range models {
		for _, name := range checkpoint.Companions {
			raw, err := b.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			out = append(out, checkpoint.TextFile(name, raw))
		}
		if len(out) > 0 {
			break
		}
	}
	return out, nil
}

// vocabStep is what a new model's vocabulary is a multiple of: kernels work in such steps, and rows of no token cost little.
const vocabStep = 64

// rows is the vocabulary of a new model.
func (t Tokens) rows() int {
	if t.Tokenizer == nil || t.Kind == byteTokens {
		return 0
	}
	return (t.Tokenizer.VocabSize() + vocabStep - 1) / vocabStep * vocabStep
}

// Fit refuses a model with fewer rows than the tokenizer has tokens; where names the model in messages. A tokenizer may have special tokens for images
// beyond the rows of a model that sees none, as Gemma 3 has, and one for padding, which no text has.
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

// Text is the tokenizer that writes what a model draws; nil: none is known to.
func (t Tokens) Text() train.Tokenizer {
	switch {
	case t.Tokenizer != nil:
		return NewTokenizer(t.Tokenizer)
	case t.Kind == byteTokens:
		return train.Bytes
	}
	return nil
}

// Template is a chat template beside the tokenizer, which has to be there, as chat.Open names it.
func (t Tokens) Template(what string) (*chat.Template, error) { return chat.Open(t.files, what) }

// Ends are the tokens that end a text.
func (t Tokens) Ends() []int32 {
	if t.Tokenizer == nil {
		return nil
	}
	return t.Tokenizer.EndTokens()
}

// ModelTokens is how text becomes tokens for a model: by the tokenizer that is there, else as bytes.
func ModelTokens(b *hub.Bundle, def model.Definition) (Tokens, error) {
	if !tokenizer.Has(b) {
		return Tokens{Kind: byteTokens}, nil
	}
	tok, err := tokenizer.Open(b)
	if err != nil {
		return Tokens{}, &ModelError{err}
	}
	t := Tokens{Kind: tokenizerTokens, Tokenizer: tok, Path: b.Path("."), files: b}
	if err := t.Fit(def, t.Path); err != nil {
		return Tokens{}, &ModelError{err}
	}
	return t, nil
}

// As is how the run of a run file made tokens, with the tokenizer of its model. Relative paths of the run file begin in dir.
func (t Tokens) As(cfg *runfile.Config, dir string) (Tokens, error) {
	d := cfg.Data
	if wanted := d.TokenizerFingerprint; t.Tokenizer != nil && wanted != "" && t.Tokenizer.Fingerprint() != wanted {
		return t, &ModelError{fmt.Errorf("%s: found a tokenizer of fingerprint %s, wanted %s, that of the run%s",
			t.Path, t.Tokenizer.Fingerprint(), wanted, since(t.Tokenizer, wanted))}
	}
	if t.Tokenizer != nil {
		t.Tokenizer = t.endAsBegun(cfg, dir)
	}
	var err error
	if t.Chats, err = t.chatsBy(cfg, nil, t.savedWith(cfg)); err != nil {
		return t, &UsageError{err}
	}
	if t.Chats.Template != nil && d.Template != "" {
		t.Chats.Fingerprint = fingerprintAsBegun(cfg, dir, t.Chats.Fingerprint)
	}
	switch {
	case d.Tokens == byteTokens:
		return Tokens{Kind: byteTokens}, nil
	case d.Tokens == tokenizerTokens && t.Tokenizer == nil:
		return t, &ModelError{fmt.Errorf("found no tokenizer beside the model, wanted that of the run (data.tokenizer)")}
	case d.Tokens != autoTokens:
		t.Kind = d.Tokens
	}
	return t, nil
}

// cacheOf is the directory that keeps tokens of text; "": there is none.
func cacheOf(cfg *runfile.Config) string {
	if cfg.Data.Cache != "" {
		return cfg.Data.Cache
	}
	dir := gpu.CacheDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "tokens")
}
