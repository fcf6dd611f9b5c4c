package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"gputrain/internal/stranger"
)

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
