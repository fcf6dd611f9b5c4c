package setup

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gputrain/hub"
	"gputrain/run/data/texts"
	"gputrain/run/runfile"
	"gputrain/state/checkpoint"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

// chatsOf is how conversations become tokens: by the template that the run file names, else by that beside the tokenizer, else by that of the model's
// directory. That there is none is an error only where data.template names one, or later where a row needs it.
func (t Tokens) chatsOf(cfg *runfile.Config, from *hub.Bundle) (texts.Chats, error) {
	return t.chatsBy(cfg, from, cfg.Data.Template)
}

// chatsBy is chatsOf by a template that is called what.
func (t Tokens) chatsBy(cfg *runfile.Config, from *hub.Bundle, what string) (texts.Chats, error) {
	d := cfg.Data
	c := texts.Chats{Options: chat.Options{LastOnly: d.LearnLast}}
	if len(d.Roles) > 0 {
		c.Options.Learn = d.Roles
	}
	var err error
	if c.Options.Now, err = time.ParseInLocation(time.DateOnly, d.Date, time.UTC); err != nil {
		return c, fmt.Errorf("run file: data.date: %w", err)
	}
	if t.Tokenizer == nil {
		if what != "" {
			return c, cfg.Invalid("data.template", what, "none without a tokenizer: data.tokenizer, or a directory in model.from that has one")
		}
		return c, nil
	}
	beside := t.files.Directory()
	c.Template, c.Lacking = chat.OpenTemplate(beside, what)
	if errors.Is(c.Lacking, chat.ErrNone) && from != nil && from != beside {
		beside = from
		c.Template, c.Lacking = chat.OpenTemplate(beside, what)
	}
	if c.Lacking != nil {
		c.Template = nil
		if what != "" {
			return c, cfg.Wrong("data.template", c.Lacking)
		}
		return c, nil
	}
	if c.Name = "template " + what; what == "" {
		c.Name = "template of " + beside.Path(".")
	}
	c.Fingerprint, err = chat.Fingerprint(beside, what)
	return c, err
}

// withTemplate are the companions of a model that learns from conversations by the template that the run file names: whoever talks with it finds
// that one beside it.
func (t Tokens) withTemplate(cfg *runfile.Config) []checkpoint.Source {
	if cfg.Data.Template == "" || t.Chats.Template == nil {
		return t.Companions
	}
	others := slices.DeleteFunc(slices.Clone(t.Companions), func(s checkpoint.Source) bool { return s.Name == chat.File })
	return append(others, checkpoint.TextFile(chat.File, []byte(t.Chats.Template.Source())))
}

// fingerprintAsBegun is that of a template which the run file names, where the run found its tokenizer: a checkpoint has the template under another
// name. If that place is gone, it is the saved one's.
func fingerprintAsBegun(cfg *runfile.Config, dir, saved string) string {
	what := cfg.Data.Template
	if strings.HasSuffix(what, ".jinja") {
		what = placeOf(what, dir)
	}
	files, err := hub.OpenTokenizer(tokenizerOf(cfg, dir))
	if err != nil {
		return saved
	}
	defer files.Close()
	begun, err := chat.Fingerprint(files.Directory(), what)
	if err != nil {
		return saved
	}
	return begun
}

// endAsBegun is the tokenizer with the end of a text that it had where the run found it: a checkpoint says by which token its model ends answers,
// and a tokenizer without an end would take that for its own. If that place is gone, it is the saved one.
func (t Tokens) endAsBegun(cfg *runfile.Config, dir string) *tokenizer.Tokenizer {
	if len(t.Tokenizer.EndTokens()) != 1 {
		return t.Tokenizer
	}
	begun, err := OpenTokenizer(tokenizerOf(cfg, dir))
	if err != nil || begun.Fingerprint() != t.Tokenizer.Fingerprint() {
		return t.Tokenizer
	}
	return begun
}

// tokenizerOf is where a run found its tokenizer. Relative paths of its file begin in dir.
func tokenizerOf(cfg *runfile.Config, dir string) string {
	return placeOf(cmp.Or(cfg.Data.Tokenizer, cfg.Model.From), dir)
}

func placeOf(path, dir string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// savedWith is the template that a checkpoint beside t has of its run; "": the directory's own.
func (t Tokens) savedWith(cfg *runfile.Config) string {
	if t.files != nil && t.files.Directory().Has(chat.File) {
		return ""
	}
	return cfg.Data.Template
}
