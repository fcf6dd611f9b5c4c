package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/hub"
	"gputrain/internal/cache"
	"gputrain/model"
	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/record"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

// Tokens is how the text of a run becomes tokens, and its tokens text.
type Tokens struct {
	plan.Tokens
	Chats texts.Chats // how conversations become tokens
	// Companions are the files that checkpoints take along: those of the tokenizer, and how text is drawn from a model.
	Companions []checkpoint.Source

	files *hub.Bundle // at Path; nil: there are none
}

// tokensOf finds the tokenizer of a run file, with what its model is from; nil: from none.
func tokensOf(cfg *runfile.Config, from *hub.Bundle, out io.Writer) (t Tokens, err error) {
	own := ""
	if from != nil && tokenizer.Has(from) {
		own = from.Path(".")
	}
	if t.Tokens, err = plan.TokensOf(cfg, own); err != nil {
		return Tokens{}, &UsageError{err}
	}
	if t.Own {
		t.files = from
	}
	if t.Kind != plan.ByteTokens && t.Path != "" {
		err = t.open(cfg, out)
	}
	if !t.Own {
		defer t.files.Close() // all is read by then
	}
	if err != nil {
		return Tokens{}, err
	}
	if t.Chats, err = t.chatsOf(cfg, from); err != nil {
		return Tokens{}, &UsageError{err}
	}
	t.Closing = t.closing()
	if t.Path == "" && from != nil { // what is there all the same
		if t.Companions, err = Companions(from); err != nil {
			return Tokens{}, &UsageError{err}
		}
	}
	t.Companions = t.withTemplate(cfg)
	return t, nil
}

// closing is the last token of a conversation; nil where there is no template, or one that does not take one as short: reading rows says why.
func (t *Tokens) closing() *int32 {
	if t.Tokenizer == nil || t.Chats.Template == nil {
		return nil
	}
	encoder, err := chat.NewEncoder(t.Tokenizer, t.Chats.Template, t.Chats.Options)
	if err != nil {
		return nil
	}
	c := &chat.Conversation{}
	c.Add("user", "a")
	c.Add("assistant", "a")
	tokens, _, err := encoder.Encode(c)
	if err != nil || len(tokens) == 0 {
		return nil
	}
	return &tokens[len(tokens)-1]
}

// open opens the tokenizer and reads the files that go with it.
func (t *Tokens) open(cfg *runfile.Config, out io.Writer) (err error) {
	if !t.Own {
		if t.files, err = hub.OpenTokenizer(t.Path); err != nil {
			return &UsageError{err}
		}
	}
	tok, err := tokenizer.Open(t.files)
	switch {
	case err != nil && t.Own && t.Kind != plan.TokenizerTokens: // ids need none
		fmt.Fprintf(out, "gputrain: %v: samples are not written\n", err)
	case err != nil && t.Own:
		return &UsageError{fmt.Errorf("%w: data.tokens=bytes reads text as bytes", err)}
	case err != nil:
		return &UsageError{err}
	default:
		if wanted := cfg.Data.TokenizerFingerprint; wanted != "" && !strings.HasPrefix(tok.Fingerprint(), wanted) {
			return &UsageError{cfg.Invalid("data.tokenizer_fingerprint", wanted, fmt.Sprintf("%s, that of %s%s", tok.Fingerprint(), t.Path, since(tok, wanted)))}
		}
		fmt.Fprintf(out, "gputrain: tokenizer %s: %s, %d tokens, fingerprint %.12s\n", t.Path, tok.Kind(), tok.VocabSize(), tok.Fingerprint())
		t.Tokenizer = tok
	}
	if t.Companions, err = Companions(t.files); err != nil {
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
func (t Tokens) explain(settings []record.Setting) []record.Setting {
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
		if out, err = filesOf(b, checkpoint.Companions); err != nil || len(out) > 0 {
			return out, err
		}
	}
	return nil, nil
}

// Processors are the files by which other programs make of images and sound what the parts of a model take that are not its network of text.
func Processors(whole *hub.Bundle) ([]checkpoint.Source, error) {
	return filesOf(whole, []string{"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"})
}

// filesOf are those of some names that a model has.
func filesOf(b *hub.Bundle, names []string) (out []checkpoint.Source, err error) {
	for _, name := range names {
		raw, err := b.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, checkpoint.TextFile(name, raw))
	}
	return out, nil
}

// Text is the tokenizer that writes what a model draws; nil: none is known to.
func (t Tokens) Text() train.Tokenizer {
	switch {
	case t.Tokenizer != nil:
		return NewTokenizer(t.Tokenizer)
	case t.Kind == plan.ByteTokens:
		return train.Bytes
	}
	return nil
}

// Template is a chat template beside the tokenizer, which has to be there, as chat.Open names it.
func (t Tokens) Template(what string) (*chat.Template, error) {
	return chat.OpenTemplate(t.files, what)
}

// Ends are the tokens that end a text.
func (t Tokens) Ends() []int32 {
	if t.Tokenizer == nil {
		return nil
	}
	return t.Tokenizer.EndTokens()
}

// Closes tells whether a token ends what it stands behind: one that ends a text, or that no text has.
func (t Tokens) Closes(token int32) bool {
	return slices.Contains(t.Ends(), token) || slices.Contains(specialOf(t.Text()), token)
}

// fingerprint is the tokenizer's; "": there is no tokenizer.
func (t Tokens) fingerprint() string {
	if t.Tokenizer == nil {
		return ""
	}
	return t.Tokenizer.Fingerprint()
}

// asBytes are texts whose bytes are the tokens.
var asBytes = Tokens{Tokens: plan.Tokens{Kind: plan.ByteTokens}}

// ModelTokens is how text becomes tokens for a model: by the tokenizer that is there, or beside the base of adapters, else as bytes.
func ModelTokens(b *hub.Bundle, def model.Definition) (Tokens, error) {
	if b = b.OrBase(tokenizer.Has(b)); !tokenizer.Has(b) {
		return asBytes, nil
	}
	tok, err := tokenizer.Open(b)
	if err != nil {
		return Tokens{}, &ModelError{err}
	}
	t := Tokens{Tokens: plan.Tokens{Kind: plan.TokenizerTokens, Tokenizer: tok, Path: b.Path(".")}, files: b}
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
	case d.Tokens == plan.ByteTokens:
		return asBytes, nil
	case d.Tokens == plan.TokenizerTokens && t.Tokenizer == nil:
		return t, &ModelError{fmt.Errorf("found no tokenizer beside the model, wanted that of the run (data.tokenizer)")}
	case d.Tokens != plan.AutoTokens:
		t.Kind = d.Tokens
	}
	return t, nil
}

// cacheOf is the directory that keeps tokens of text; "": there is none.
func cacheOf(cfg *runfile.Config) string {
	if cfg.Data.Cache != "" {
		return cfg.Data.Cache
	}
	dir := cache.Dir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "tokens")
}
