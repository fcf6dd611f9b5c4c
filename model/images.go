package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gputrain/internal/suggest"
)

// textPart is the text part of a model with images, by the model_type of its text_config: what is trained of it is stored as that. idle are keys beside
// text_config that change none of its numbers, and absent those that it has where the file has no such key.
func (c *ConfigReader) textPart(absent map[string]string, read map[string]func(c *ConfigReader) (Definition, error), idle ...string) (Definition, error) {
	text := c.object("text_config")
	if text == nil {
		c.wrong("text_config", "an object: the text part")
		return nil, nil
	}
	inner := newConfigReader(maps.Clone(text))
	add := func(key string, value json.RawMessage) {
		if _, there := inner.fields[key]; !there && value != nil {
			inner.fields[key] = value
		}
	}
	for key, value := range absent {
		add(key, json.RawMessage(value))
	}
	for _, key := range []string{"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", quantizationKey} {
		add(key, c.fields[key])
	}
	kinds := slices.Sorted(maps.Keys(read))
	kind := inner.text("model_type", kinds[0])
	reader := read[kind]
	if reader == nil {
		c.wrong("text_config", fmt.Sprintf("a model_type of %q%s", kinds, suggest.DidYouMean(kind, kinds)))
		return nil, nil
	}
	inner.fields["architectures"] = json.RawMessage(fmt.Sprintf("[%q]", strings.TrimSuffix(families[kind].Class, "Text")+"ForCausalLM"))
	c.used["tie_word_embeddings"], c.used[quantizationKey], c.used[poolingKey] = true, true, true
	c.refuseUnknown(append(idle, "vision_config", "initializer_range")...)
	def, err := reader(inner)
	for _, wrong := range inner.errs {
		c.errs = append(c.errs, fmt.Errorf("text_config: %w", wrong))
	}
	return def, err
}

// imageConstants are what a model with images has besides its text part.
var imageConstants = regexp.MustCompile(`(^|\.)rotary_emb\.|^(model\.)?(vision_tower|multi_modal_projector|visual)\.|^mtp\.`)

// textPath is what the text part of a model with images calls a tensor.
func textPath(name string) string {
	if rest, ok := strings.CutPrefix(name, "model.language_model."); ok {
		return "model." + rest
	}
	return strings.TrimPrefix(name, "language_model.")
}
