package model

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers/safetensors"
	"gputrain/internal/suggest"
)

// A wrapping is a kind of models that are a network of text and more, such as what sees images. The network alone is trained; the rest is written as it was
// found.
type wrapping struct {
	texts  map[string]func(c *ConfigReader) (Definition, error) // what reads text_config, by its model_type
	prefix string                                               // of the network's tensors in files, in place of textRoot
	parts  []string                                             // the modules beside the network
	idle   []string                                             // keys beside text_config that change none of its numbers
	absent map[string]string                                    // what text_config has where it has no such key
}

// textRoot begins the paths of a network that may be wrapped, and wrappedRoot what transformers calls them in a wrapped one, and so does PEFT.
const (
	textRoot    = "model."
	wrappedRoot = "model.language_model."
)

// wrappings are those that are read, by model_type.
var wrappings = map[string]wrapping{
	"gemma3": {
		texts: map[string]func(c *ConfigReader) (Definition, error){"gemma3_text": readGemma3}, prefix: "language_model.model.",
		parts: []string{"vision_tower", "multi_modal_projector"}, idle: []string{"mm_tokens_per_image"}, absent: imageDefaults,
	},
	"gemma4": {
		texts: map[string]func(c *ConfigReader) (Definition, error){"gemma4_text": readGemma4}, prefix: wrappedRoot,
		parts: []string{"vision_tower", "audio_tower", "embed_vision", "embed_audio", "multi_modal_projector"},
		idle:  []string{"audio_config", "vision_soft_tokens_per_image"},
	},
	"mistral3": {
		texts: map[string]func(c *ConfigReader) (Definition, error){"ministral3": readMinistral3, "mistral": readMistral}, prefix: "language_model.model.",
		parts: []string{"vision_tower", "multi_modal_projector"},
		idle:  []string{"multimodal_projector_bias", "projector_hidden_act", "spatial_merge_size", "vision_feature_layer"},
	},
	"qwen3_5":     qwen35Wrapping("qwen3_5_text", readQwen35),
	"qwen3_5_moe": qwen35Wrapping("qwen3_5_moe_text", readQwen35MoE),
}

// qwen35Wrapping is that of networks with experts or without.
func qwen35Wrapping(kind string, read func(c *ConfigReader) (Definition, error)) wrapping {
	return wrapping{
		texts: map[string]func(c *ConfigReader) (Definition, error){kind: read}, prefix: wrappedRoot,
		parts: []string{"visual", "mtp"}, idle: []string{"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"},
	}
}

func init() {
	for kind, row := range wrappings {
		Register(Family{Kind: kind, Read: func(c *ConfigReader) (Definition, error) { return c.textPart(kind, row) }, Head: "lm_head.weight"})
	}
}

// modules matches what lies in the modules beside the network; what stands before it is the rest of the expression.
func (row wrapping) modules() string {
	return `(?:model\.)?(?:` + strings.Join(row.parts, "|") + `)\..*`
}

// mayBeWrapped gives a family what files have of it where it is the text part of a wrapping.
func (f *Family) mayBeWrapped() {
	for _, row := range wrappings {
		if row.texts[f.Kind] != nil {
			f.Path, f.Constants, f.beside = textPath, anyRotary, regexp.MustCompile("^"+row.modules())
		}
	}
}

// anyRotary are what rotations of a wrapping's network are named.
var anyRotary = regexp.MustCompile(`(^|\.)rotary_emb\.`)

// textPath is what the text part of a model with images calls a tensor.
func textPath(name string) string {
	if rest, ok := strings.CutPrefix(name, wrappedRoot); ok {
		return textRoot + rest
	}
	return strings.TrimPrefix(name, "language_model.")
}

// wrapper is what a network is the text part of.
type wrapper struct {
	row    wrapping
	kind   string
	fields map[string]json.RawMessage // of its config.json
	read   map[string]any             // the settings that the network had there
}

// textPart is the network of text in a wrapping.
func (c *ConfigReader) textPart(kind string, row wrapping) (Definition, error) {
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
	for key, value := range row.absent {
		add(key, json.RawMessage(value))
	}
	for _, key := range outerKeys {
		add(key, c.fields[key])
	}
	kinds := slices.Sorted(maps.Keys(row.texts))
	part := inner.text("model_type", kinds[0])
	reader := row.texts[part]
	if reader == nil {
		c.wrong("text_config", fmt.Sprintf("a model_type of %q%s", kinds, suggest.DidYouMean(part, kinds)))
		return nil, nil
	}
	inner.fields["architectures"] = json.RawMessage(fmt.Sprintf("[%q]", strings.TrimSuffix(families[part].Class, "Text")+"ForCausalLM"))
	c.used[tieKey], c.used[quantizationKey], c.used[poolingKey] = true, true, true
	c.refuseUnknown(append(slices.Clone(row.idle), "vision_config", "initializer_range")...)
	def, err := reader(inner)
	for _, wrong := range inner.errs {
		c.errs = append(c.errs, fmt.Errorf("text_config: %w", wrong))
	}
	if m, ok := def.(decoder); ok {
		m.around = &wrapper{row: row, kind: kind, fields: maps.Clone(c.fields), read: m.Settings()}
		m.around.read["model_type"] = part
		def = m
	}
	return def, err
}

// outerKeys are those that a wrapping may have in place of its text part, or both.
var outerKeys = []string{"bos_token_id", "eos_token_id", "pad_token_id", tieKey, quantizationKey}

// config is a config.json of the whole, whose network has these settings: what they do not change is as it was found, where it was found.
func (w *wrapper) config(settings map[string]any, dtype string) (map[string]any, error) {
	var text map[string]any
	outer := map[string]any{}
	for key, value := range w.fields {
		outer[key] = value
	}
	var found map[string]json.RawMessage
	if err := json.Unmarshal(w.fields["text_config"], &found); err != nil {
		return nil, err
	}
	text = map[string]any{}
	for key, value := range found {
		text[key] = value
	}
	keys := maps.Clone(w.read)
	maps.Copy(keys, settings)
	for key := range keys {
		now, there := settings[key]
		if then, was := w.read[key]; key == partOfKey || slices.Contains(dtypeKeys, key) || there == was && sameValue(now, then) {
			continue
		}
		_, within := text[key]
		_, around := outer[key]
		switch {
		case key == tieKey: // either may count for other programs
			within, around = true, true
		case !within && !around:
			around = slices.Contains(outerKeys, key)
			within = !around
		}
		for at, has := range map[*map[string]any]bool{&text: within, &outer: around} {
			switch {
			case has && there:
				(*at)[key] = now
			case has:
				delete(*at, key)
			}
		}
	}
	stated := false
	for _, at := range []map[string]any{outer, text} {
		for _, key := range dtypeKeys {
			if raw, there := at[key].(json.RawMessage); there && string(raw) != "null" {
				at[key], stated = dtype, true
			}
		}
	}
	if !stated {
		outer[dtypeKeys[0]] = dtype
	}
	outer["text_config"] = text
	return outer, nil
}

// dtypeKeys are the older and the newer name of the type of the weights.
var dtypeKeys = []string{"torch_dtype", "dtype"}

// sameValue tells whether two values are the same in a file.
func sameValue(a, b any) bool {
	left, err := json.Marshal(a)
	right, other := json.Marshal(b)
	return err == nil && other == nil && string(left) == string(right)
}

// name is what files have the parameter at path as.
func (w *wrapper) name(path string) string { return wrappedName(path, w.row.prefix) }

// wrappedName is path where the network's tensors begin with prefix; the head lies beside the network.
func wrappedName(path, prefix string) string {
	if rest, ok := strings.CutPrefix(path, textRoot); ok {
		return prefix + rest
	}
	if outside, ok := strings.CutSuffix(prefix, "."+textRoot); ok {
		return outside + "." + path
	}
	return path
}

// wrapperOf is what def is the text part of; nil: a model of its own, as all are with another head.
func wrapperOf(def Definition) *wrapper {
	switch m := Student(def).(type) {
	case adapted:
		return wrapperOf(m.Definition)
	case quantized:
		return wrapperOf(m.Definition)
	case decoder:
		return m.around
	}
	return nil
}

// placed is def with its network of text changed.
func placed(def Definition, change func(m decoder) decoder) Definition {
	switch m := def.(type) {
	case taught:
		m.Definition = placed(m.Definition, change)
		return m
	case referred:
		m.Definition = placed(m.Definition, change)
		return m
	case adapted:
		m.Definition = placed(m.Definition, change)
		return m
	case quantized:
		m.Definition = placed(m.Definition, change)
		return m
	case headed:
		m.Definition = placed(m.Definition, change)
		return m
	case decoder:
		return change(m)
	}
	return def
}

// partOfKey is where config.json of a text part alone has what it is part of. Other programs pass over it.
const partOfKey = "_text_part_of"

// TextPart is def alone where it is the text part of a larger model, such as one that sees images: its files have names of their own and no other parts, and
// config.json says what it is part of.
func TextPart(def Definition) Definition {
	w := wrapperOf(def)
	if w == nil {
		return def
	}
	return placed(def, func(m decoder) decoder {
		m.around, m.settings = nil, m.Settings()
		m.settings[partOfKey] = w.kind
		return m
	})
}

// Within is def as the text part of what whole is the text part of; false: whole is a network of text alone, or another.
func Within(def, whole Definition) (Definition, bool) {
	w := wrapperOf(whole)
	if w == nil || whole.Kind() != def.Kind() || HeadOf(def).Kind != "" {
		return def, false
	}
	return placed(def, func(m decoder) decoder {
		m.around = w
		return m
	}), true
}

// passesOver tells whether a tensor of a file is none of a network with these parameters, and belongs to another part or is not read.
func (f Family) passesOver(name string, params map[string]bool) bool {
	if f.beside != nil && f.beside.MatchString(name) {
		return true
	}
	path := f.path(name)
	return f.Dead != nil && !params[path] && f.Dead.MatchString(path)
}

// others are the tensors of the files that are none of the network's, as they are.
func (s *Stored) others() (tensors []safetensors.Tensor) {
	seen := map[string]bool{}
	for ; s != nil; s = s.base {
		for _, name := range s.beside {
			if seen[name] {
				continue
			}
			t := s.in[name]
			seen[name] = true
			write := t.Raw
			if write == nil { // nf4, which the text is not written in either
				write = func(w io.Writer) error {
					data := make([]float32, elements(t.Shape))
					if err := t.Read(data, 0); err != nil {
						return err
					}
					return WriteFloats(w, t.DType, data)
				}
			}
			tensors = append(tensors, safetensors.Tensor{Name: name, DType: t.DType, Shape: t.Shape, Data: write})
		}
	}
	return tensors
}

// withOthers are the tensors of def and those beside it in the files that it comes from; it says which, or what is lacking.
func withOthers(def Definition, tensors []safetensors.Tensor, o ExportOptions) []safetensors.Tensor {
	tell := o.Tell
	if tell == nil {
		tell = func(string) {}
	}
	others := o.Like.others()
	var names []string
	for _, t := range others {
		names = append(names, t.Name)
	}
	part, _ := json.Marshal(def.Settings()[partOfKey])
	switch {
	case HeadOf(def).Kind != "" && len(others) > 0:
		tell(fmt.Sprintf("%d tensors beside the network of text are not written, as it has %s in place of logits: %s", len(others), headRowOf(HeadOf(def).Kind).says, described(names)))
		return tensors
	case len(others) > 0:
		tell(fmt.Sprintf("%d tensors beside the network of text are copied as they are: %s", len(others), described(names)))
	case string(part) != "null" && wrapperOf(def) == nil:
		tell(fmt.Sprintf("found the text part of a model of kind %s and not the model that it was trained from, wanted that to copy its other parts: "+
			"the text part alone is written, as a %s; --base says where the model is", strings.Trim(string(part), `"`), def.Kind()))
	}
	return append(tensors, others...)
}
