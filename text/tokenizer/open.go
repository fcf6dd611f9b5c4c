package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"gputrain/internal/placeholder"
	"gputrain/internal/stranger"
)

// Open reads the tokenizer of a directory, or of what stands for one, such as a hub.Bundle: its tokenizer.json, else
// its tokenizer.model, with what other files there say of tokens.
func Open(files stranger.Files) (*Tokenizer, error) {
	t, err := open(files)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: open %q: %w", files.Path("."), err)
	}
	return t, nil
}

func open(files stranger.Files) (*Tokenizer, error) {
	file := nameIn(files)
	if file == "" {
		return nil, errors.New("found neither, wanted tokenizer.json or tokenizer.model")
	}
	raw, err := fs.ReadFile(files, file)
	if err != nil {
		return nil, err
	}
	settings, err := readSettings(files)
	if err != nil {
		return nil, err
	}
	var t *Tokenizer
	if file == modelFile {
		t, err = parseModel(raw, settings)
	} else {
		t, err = parseJSON(raw, settings)
	}
	if what := placeholder.What(raw); err != nil && what != "" {
		err = errors.New(what)
	}
	if err != nil {
		return nil, err
	}
	t.from, t.files = files, []string{files.Path(file)}
	for _, name := range companions {
		if name != file && stranger.Has(files, name) {
			t.files = append(t.files, files.Path(name))
		}
	}
	end := settings.kin["eos_token"]
	t.end, t.ends = settings.ends(t, end.content)
	if before, _ := settings.ends(t, settings.ownEnd); t.end != before {
		t.says = append(t.says, fmt.Sprintf("%s: %q, token %d, stands behind a text", end.where, end.content, t.end))
	}
	t.roles = map[string]string{}
	for role, token := range settings.kin {
		t.roles[role] = token.content
	}
	t.identify(raw)
	return t, nil
}

const (
	jsonFile  = "tokenizer.json"
	modelFile = "tokenizer.model"
)

// companions are the names of files that a tokenizer consists of, or that belong to it.
var companions = []string{
	jsonFile, modelFile, configFile, namesFile, addedFile, "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json",
}

// Has tells whether a directory has a tokenizer.
func Has(files stranger.Files) bool { return nameIn(files) != "" }

// nameIn is the file that says how text becomes ids; "": there is none.
func nameIn(files stranger.Files) string {
	for _, name := range []string{jsonFile, modelFile} {
		if stranger.Has(files, name) {
			return name
		}
	}
	return ""
}

// parseJSON reads a tokenizer.json, with what lies beside it. Its post-processor alone says which tokens stand around a text: as in transformers 5,
// add_bos_token and add_eos_token of tokenizer_config.json say nothing beside a tokenizer.json.
func parseJSON(raw []byte, s *settings) (*Tokenizer, error) {
	if !json.Valid(raw) {
		if bytes.HasPrefix(raw, []byte("\ufeff")) {
			return nil, fmt.Errorf("tokenizer.json: %w", stranger.JSON(raw, new(any)))
		}
		err := json.Unmarshal(raw, new(any))
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("byte %d of %d: tokenizer.json: %w", syntax.Offset, len(raw), err)
		}
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	o := newObject("tokenizer.json", bytes.TrimSpace(raw))
	if o.err != nil {
		return nil, o.err
	}
	for _, name := range []string{"truncation", "padding"} {
		o.raw(name) // of batches: what reads one text does without, as transformers does
	}
	version := "1.0"
	if o.read("version", &version); version != "1.0" {
		o.fail("version: %w", unknown(version, []string{"1.0"}))
	}
	p := &parsed{kind: "byte-pair encoding"}
	component(o, "normalizer", &p.normalizer, readNormalizer)
	component(o, "pre_tokenizer", &p.stages, readPreTokenizer)
	component(o, "post_processor", &p.post, readPost)
	component(o, "decoder", &p.decoders, readDecoder)
	if o.raw("added_tokens") != nil {
		p.added.all = parts(o, "added_tokens", readAdded)
	}
	model := o.raw("model")
	if model == nil {
		o.fail("model: found nothing, wanted one")
	}
	if err := o.done(); err != nil {
		return nil, err
	}
	var err error
	if p.vocabulary, err = readVocabulary(model); err != nil {
		return nil, err
	}
	if p.added, err = s.extend(p.vocabulary, p.added.all); err != nil {
		return nil, err
	}
	return build(p)
}

// component reads a part of a tokenizer that may be null.
func component[T any](o *object, name string, into *T, read func(where string, raw json.RawMessage) (T, error)) {
	raw := o.raw(name)
	if raw == nil {
		return
	}
	value, err := read(name, raw)
	if err != nil && o.err == nil {
		o.err = err
	}
	*into = value
}
