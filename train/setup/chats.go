package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gputrain/chat"
	"gputrain/data"
	"gputrain/train/runfile"
)

// chatsOf is how conversations become tokens: by the template that the run file names, else by that beside the tokenizer, else by that of the model's
// directory. That there is none is an error only where data.template names one, or later where a row needs it.
func (t Tokens) chatsOf(cfg *runfile.Config, dir string) (data.Chats, error) {
	d := cfg.Data
	c := data.Chats{Options: chat.Options{LastOnly: d.LearnLast}}
	if len(d.Roles) > 0 {
		c.Options.Learn = d.Roles
	}
	var err error
	if c.Options.Now, err = time.Parse(time.DateOnly, d.Date); err != nil {
		return c, fmt.Errorf("run file: data.date: %w", err)
	}
	if t.Tokenizer == nil {
		if d.Template != "" {
			return c, fmt.Errorf("run file: data.template (%s): found %s, wanted none without a tokenizer: data.tokenizer, or a directory in model.from that has one",
				cfg.Origin("data.template"), d.Template)
		}
		return c, nil
	}
	beside := t.Path
	if info, err := os.Stat(beside); err == nil && !info.IsDir() {
		beside = filepath.Dir(beside)
	}
	c.Template, c.Lacking = chat.Open(beside, d.Template)
	if errors.Is(c.Lacking, chat.ErrNone) && dir != "" && dir != beside {
		beside = dir
		c.Template, c.Lacking = chat.Open(beside, d.Template)
	}
	if c.Lacking != nil {
		c.Template = nil
		if d.Template != "" {
			return c, fmt.Errorf("run file: data.template (%s): %w", cfg.Origin("data.template"), c.Lacking)
		}
		return c, nil
	}
	if c.Name = "template " + d.Template; d.Template == "" {
		c.Name = "template of " + beside
	}
	c.Fingerprint, err = chat.Fingerprint(beside, d.Template)
	return c, err
}
