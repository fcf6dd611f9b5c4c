package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/gguf/modeldir"
	"gputrain/internal/placeholder"
	"gputrain/internal/stranger"
)

// Open reads a tokenizer: a tokenizer.json or SentencePiece .model, or the directory that has one. Where there are both, the
// tokenizer.json counts.
func Open(path string) (*Tokenizer, error) {
	t, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: open %q: %w", path, err)
	}
	return t, nil
}

func open(path string) (*Tokenizer, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	dir, read := filepath.Dir(path), stranger.ReadNamed
	if modeldir.Is(path) {
		dir, read = path, modeldir.Read
		if path = firstOf(dir, tokenizerFiles...); path == "" {
			return nil, errors.New("found neither, wanted tokenizer.json or tokenizer.model")
		}
	}
	raw, err := read(path)
	if err != nil {
		return nil, err
	}
	settings, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	var t *Tokenizer
	if strings.HasSuffix(path, ".model") {
		t, err = parseModel(raw, settings)
	} else {
		t, err = parseJSON(raw)
	}
	if what := placeholder.What(raw); err != nil && what != "" {
		err = errors.New(what)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	t.fingerprint, t.files = hex.EncodeToString(sum[:]), []string{path}
	for _, name := range modeldir.TokenizerFiles() {
		if at := filepath.Join(dir, name); at != filepath.Clean(path) && firstOf(dir, name) != "" {
			t.files = append(t.files, at)
		}
	}
	t.end, t.ends, err = settings.ends(t)
	return t, err
}

// Has tells whether a directory has a tokenizer.
func Has(dir string) bool { return firstOf(dir, tokenizerFiles...) != "" }

// tokenizerFiles say how text becomes ids; the first that there is counts.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer.model"}

// firstOf is the first of some names that a directory has, whatever it is that has the name: who reads it says what is wrong with it.
func firstOf(dir string, names ...string) string {
	for _, name := range names {
		if modeldir.Has(dir, name) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

// settings are what the files beside a tokenizer say of it.
type settings struct {
	AddBOS *bool           `json:"add_bos_token"`
	AddEOS *bool           `json:"add_eos_token"`
	EOS    json.RawMessage `json:"eos_token"` // a text or {"content": ...}
	// Added are tokens of a SentencePiece model that texts make, by their ids. A tokenizer.json has its own.
	Added map[string]struct {
		Content    string `json:"content"`
		LStrip     bool   `json:"lstrip"`
		RStrip     bool   `json:"rstrip"`
		SingleWord bool   `json:"single_word"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	} `json:"added_tokens_decoder"`

	ids []int32 // eos_token_id of generation_config.json, then of config.json
}

func readSettings(dir string) (*settings, error) {
	s := &settings{}
	if err := modeldir.Beside(dir, "tokenizer_config.json", s); err != nil {
		return nil, err
	}
	for _, name := range []string{"generation_config.json", "config.json"} {
		var c struct {
			EOS json.RawMessage `json:"eos_token_id"` // an id or a list of ids
		}
		if err := modeldir.Beside(dir, name, &c); err != nil {
			return nil, err
		}
		ids, one := []int32(nil), int32(0)
		switch {
		case c.EOS == nil || string(c.EOS) == "null":
		case json.Unmarshal(c.EOS, &one) == nil:
			ids = []int32{one}
		case json.Unmarshal(c.EOS, &ids) != nil:
			return nil, fmt.Errorf("%s: eos_token_id: found %.40s, wanted an id or a list of ids", name, c.EOS)
		}
		s.ids = append(s.ids, ids...)
	}
	return s, nil
}

// endNames are what tokens that end a text are called, in tokenizers that nothing lies beside.
var endNames = []string{"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}

// ends are the id that is put behind a text, and those that end one. Those that the model has and the tokenizer lacks are none of its own.
func (s *settings) ends(t *Tokenizer) (end int32, all []int32, err error) {
	ids, end := slices.Clone(s.ids), int32(-1)
	var text string
	var token struct{ Content string }
	switch {
	case s.EOS == nil || string(s.EOS) == "null":
	case json.Unmarshal(s.EOS, &text) == nil:
	case json.Unmarshal(s.EOS, &token) == nil:
		text = token.Content
	default:
		return 0, nil, fmt.Errorf("tokenizer_config.json: eos_token: found %.40s, wanted a text or an object with a content", s.EOS)
	}
	if id, ok := t.ID(text); ok {
		ids, end = append(ids, id), id
	} else if text != "" {
		return 0, nil, fmt.Errorf("tokenizer_config.json: eos_token: found %q, wanted a token of the vocabulary", text)
	}
	for _, name := range endNames {
		if id, ok := t.ID(name); ok && t.special[id] && len(ids) == 0 {
			ids = append(ids, id)
		}
	}
	kept := ids[:0]
	for _, id := range ids {
		if _, err := t.Token(id); err == nil && !slices.Contains(kept, id) {
			kept = append(kept, id)
		}
	}
	if end < 0 && len(kept) > 0 {
		end = kept[0]
	}
	return end, kept, nil
}

// parseJSON reads a tokenizer.json.
func parseJSON(raw []byte) (*Tokenizer, error) {
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
		p.added = parts(o, "added_tokens", readAdded)
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
