package setup

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gputrain/checkpoint"
	"gputrain/data/texts"
	"gputrain/gguf/modeldir"
	"gputrain/gpu"
	"gputrain/internal/stranger"
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
}

// tokensOf finds the tokenizer of a run file, with the directory dir that its model is from ("": from none), and lays what it has found over data.tokens
// and data.tokenizer_fingerprint: a run records it, and is held to it.
func tokensOf(cfg *runfile.Config, dir string, out io.Writer) (Tokens, error) {
	d := cfg.Data
	t := Tokens{Kind: d.Tokens, Path: d.Tokenizer}
	own := t.Path == "" && dir != "" && tokenizer.Has(dir)
	if own {
		t.Path = dir
	}
	if t.Kind == autoTokens {
		t.Kind = tokenizerTokens
		if t.Path == "" {
			t.Kind = byteTokens
		}
	}
	if err := t.open(cfg, own, out); err != nil {
		return Tokens{}, err
	}
	var err error
	if t.Chats, err = t.chatsOf(cfg, dir); err != nil {
		return Tokens{}, &UsageError{err}
	}
	if t.Path == "" && dir != "" && !tokenizer.Has(dir) { // what is there all the same
		if t.Companions, err = companions(dir); err != nil {
			return Tokens{}, &UsageError{err}
		}
	}
	t.Companions = t.withTemplate(cfg)
	from := cfg.Origin("data.tokens")
	if d.Tokens == autoTokens && t.Kind == tokenizerTokens {
		from = "model.from"
		if !own {
			from = "data.tokenizer"
		}
	}
	err = cfg.Lay("data.tokens", t.Kind, from)
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
	tok, err := tokenizer.Open(t.Path)
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
	t.Companions, err = companions(t.Path)
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

// companions are the files of the tokenizer at a path, a directory or a file, under the names by which other programs know them.
func companions(path string) ([]checkpoint.Source, error) {
	if modeldir.Is(path) {
		return checkpoint.Companions(path)
	}
	raw, err := stranger.ReadNamed(path)
	if err != nil {
		return nil, err
	}
	name := "tokenizer.json"
	if strings.HasSuffix(path, ".model") {
		name = "tokenizer.model"
	}
	out := []checkpoint.Source{checkpoint.TextFile(name, raw)}
	beside, err := checkpoint.Companions(filepath.Dir(path))
	for _, f := range beside {
		if f.Name != "tokenizer.json" && f.Name != "tokenizer.model" {
			out = append(out, f)
		}
	}
	return out, err
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

// Ends are the tokens that end a text.
func (t Tokens) Ends() []int32 {
	if t.Tokenizer == nil {
		return nil
	}
	return t.Tokenizer.EndTokens()
}

// ModelTokens is how text becomes tokens for the model in dir: by the tokenizer that is there, else as bytes.
func ModelTokens(dir string, def model.Definition) (Tokens, error) {
	if !tokenizer.Has(dir) {
		return Tokens{Kind: byteTokens}, nil
	}
	tok, err := tokenizer.Open(dir)
	if err != nil {
		return Tokens{}, &ModelError{err}
	}
	t := Tokens{Kind: tokenizerTokens, Tokenizer: tok, Path: dir}
	if err := t.Fit(def, dir); err != nil {
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
	if t.Chats, err = t.chatsBy(cfg, "", t.savedWith(cfg)); err != nil {
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
