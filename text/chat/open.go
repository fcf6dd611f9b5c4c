package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gputrain/internal/stranger"
	"gputrain/internal/suggest"
	"gputrain/text/chat/template"
)

// A Template is what a model's directory says of how conversations become text. It does not change once it is open.
type Template struct {
	name    string                        // of what was asked for
	all     map[string]*template.Template // by name; "default" and "tool_use" have a meaning
	special template.Object               // tokens, by the names that templates have for them
	builtin bool
	files   stranger.Files
	account template.Account // of all its renderings
}

// ErrNone is what OpenTemplate says of a directory that has no template.
var ErrNone = errors.New("no chat template")

// OpenTemplate reads the template of a model's directory, or of what stands for one, such as a hub.Bundle. What may be "" for
// the template of the directory, the name of another that the directory has, the name of a built-in one, or the path of
// a file that ends in .jinja.
func OpenTemplate(files stranger.Files, what string) (*Template, error) {
	t := &Template{name: what, all: map[string]*template.Template{}, files: files}
	if err := t.open(what); err != nil {
		return nil, fmt.Errorf("chat: open %q: %w", files.Path("."), err)
	}
	return t, nil
}

func (t *Template) open(what string) error {
	var config map[string]json.RawMessage
	if err := stranger.Beside(t.files, "tokenizer_config.json", &config); err != nil {
		return err
	}
	if err := t.tokens(config); err != nil {
		return err
	}
	if strings.HasSuffix(what, ".jinja") {
		raw, err := stranger.ReadNamed(what)
		if err != nil {
			return err
		}
		return t.parse("default", filepath.Base(what), string(raw))
	}
	if err := t.ofDirectory(config); err != nil {
		return err
	}
	if what == "" {
		if len(t.all) == 0 {
			return fmt.Errorf("%w: found neither chat_template.jinja nor chat_template in tokenizer_config.json, wanted one; a base model has none: "+
				"data.template names a built-in one (%s) or a .jinja file", ErrNone, strings.Join(builtInNames(), ", "))
		}
		return nil
	}
	if own, ok := t.all[what]; ok {
		t.all = map[string]*template.Template{"default": own}
		return nil
	}
	source, ok := builtIn[what]
	if !ok {
		names := append(builtInNames(), slices.Sorted(maps.Keys(t.all))...)
		return fmt.Errorf("template: found %q, wanted one of %s, or a file that ends in .jinja%s", what, strings.Join(names, ", "), suggest.DidYouMean(what, names))
	}
	t.builtin, t.all = true, map[string]*template.Template{}
	return t.parse("default", what, source)
}

func (t *Template) parse(name, called, source string) (err error) {
	t.all[name], err = template.Parse(called, source)
	return err
}

// File is the name of a directory's template.
const File = "chat_template.jinja"

// Source is the text of the template, as it stands in a [File].
func (t *Template) Source() string {
	if of, ok := t.all["default"]; ok {
		return of.Source()
	}
	return ""
}

// ofDirectory reads what lies in the directory. A file of its own wins over what the configuration says.
func (t *Template) ofDirectory(config map[string]json.RawMessage) error {
	if err := t.configured(config["chat_template"], "tokenizer_config.json"); err != nil {
		return err
	}
	if len(t.all) == 0 {
		var processor map[string]json.RawMessage
		if err := stranger.Beside(t.files, "chat_template.json", &processor); err != nil {
			return err
		}
		if err := t.configured(processor["chat_template"], "chat_template.json"); err != nil {
			return err
		}
	}
	names, err := additional(t.files)
	if err != nil {
		return err
	}
	files := map[string]string{"default": File}
	for _, name := range names {
		files[strings.TrimSuffix(name, ".jinja")] = path.Join(folder, name)
	}
	for i, name := range append([]string{"default"}, slices.Sorted(maps.Keys(files))...) {
		raw, err := fs.ReadFile(t.files, files[name])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case i == 0: // with it, nothing of the configuration counts
			t.all = map[string]*template.Template{}
		}
		if err := t.parse(name, files[name], string(raw)); err != nil {
			return err
		}
	}
	return nil
}

// folder has templates besides the one for everything.
const folder = "additional_chat_templates"

func additional(files stranger.Files) (names []string, err error) {
	info, err := fs.Stat(files, folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: found no directory, wanted one", folder)
	}
	entries, err := fs.ReadDir(files, folder)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".jinja" {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// configured reads a chat_template: a text, or a list of those with names.
func (t *Template) configured(raw json.RawMessage, file string) error {
	var one *string
	var several []struct{ Name, Template string }
	switch {
	case raw == nil || string(raw) == "null":
	case json.Unmarshal(raw, &one) == nil:
		return t.parse("default", file, *one)
	case json.Unmarshal(raw, &several) == nil:
		for _, s := range several {
			if err := t.parse(s.Name, file+": "+s.Name, s.Template); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%s: chat_template: found %.40s, wanted a text, or a list of objects with name and template", file, raw)
	}
	return nil
}

// tokenNames are the special tokens that templates have as variables.
var tokenNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

func (t *Template) tokens(config map[string]json.RawMessage) error {
	var older map[string]json.RawMessage
	if err := stranger.Beside(t.files, "special_tokens_map.json", &older); err != nil {
		return err
	}
	for _, name := range tokenNames {
		raw, ok := config[name]
		if !ok {
			raw = older[name]
		}
		s, err := tokenText(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if s != "" {
			t.special.Set(name, s)
		}
	}
	var list []json.RawMessage
	if raw := config["additional_special_tokens"]; raw != nil && json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		all := make([]any, len(list))
		for i, raw := range list {
			s, err := tokenText(raw)
			if err != nil {
				return fmt.Errorf("additional_special_tokens: %w", err)
			}
			all[i] = s
		}
		t.special.Set("additional_special_tokens", all)
	}
	var extra map[string]json.RawMessage
	if raw := config["extra_special_tokens"]; raw != nil && json.Unmarshal(raw, &extra) == nil {
		for _, name := range slices.Sorted(maps.Keys(extra)) {
			s, err := tokenText(extra[name])
			if err != nil {
				return fmt.Errorf("extra_special_tokens: %s: %w", name, err)
			}
			t.special.Set(name, s)
		}
	}
	return nil
}

// tokenText is a token's text: itself, or the content of an object.
func tokenText(raw json.RawMessage) (string, error) {
	var s string
	var o struct{ Content *string }
	switch {
	case raw == nil, json.Unmarshal(raw, &s) == nil: // "" for null
		return s, nil
	case json.Unmarshal(raw, &o) == nil && o.Content != nil:
		return *o.Content, nil
	}
	return "", fmt.Errorf("found %.40s, wanted a text, or an object with a content", raw)
}

// choose is the template for a conversation: the one for tools where there are some and it is there.
func (t *Template) choose(variables *template.Object) (*template.Template, error) {
	if tools, _ := variables.Get("tools"); tools != nil {
		if of, ok := t.all["tool_use"]; ok {
			return of, nil
		}
	}
	if of, ok := t.all["default"]; ok {
		return of, nil
	}
	return nil, fmt.Errorf("found no template of the name \"default\", wanted one, or one of %s by its name (data.template)",
		strings.Join(slices.Sorted(maps.Keys(t.all)), ", "))
}

// Within sets how long all renderings together may take beside what each may: 0 is as long as they take; it begins with a minute.
func (t *Template) Within(limit time.Duration) { t.account.Within(limit) }

// Render writes messages as text. With generation the text ends where an answer begins. Variables are what else the
// template gets; now is what it takes for the time.
func (t *Template) Render(messages []*template.Object, variables *template.Object, generation bool, now time.Time) (*template.Rendering, error) {
	of, err := t.choose(variables)
	if err != nil {
		return nil, err
	}
	return of.Render(t.given(messages, variables, generation), t.options(now))
}

func (t *Template) options(now time.Time) template.Options {
	return template.Options{Account: &t.account, Now: now}
}

// given are the variables of a rendering.
func (t *Template) given(messages []*template.Object, variables *template.Object, generation bool) *template.Object {
	list := make([]any, len(messages))
	for i, m := range messages {
		list[i] = m
	}
	all := &template.Object{}
	for _, o := range []*template.Object{&t.special, variables} {
		for _, key := range o.Keys() {
			value, _ := o.Get(key)
			all.Set(key, value)
		}
	}
	all.Set("messages", list)
	for _, key := range []string{"tools", "documents"} {
		if _, ok := all.Get(key); !ok {
			all.Set(key, nil)
		}
	}
	all.Set("add_generation_prompt", generation)
	return all
}
