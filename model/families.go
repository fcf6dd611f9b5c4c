package model

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
)

// The families of decoders that are read from files. A row says what is not Llama's of it.
func init() {
	for kind, row := range map[string]struct {
		read  func(c *ConfigReader) (Definition, error)
		begin *beginning // nil: none is made but from files
		class string
	}{
		"qwen2": {readQwen2, &newQwen2, "Qwen2"}, "qwen3": {readQwen3, &newQwen3, "Qwen3"}, "mistral": {readMistral, &newMistral, "Mistral"},
		"gemma2": {readGemma2, &newGemma2, "Gemma2"}, "gemma3_text": {readGemma3, &newGemma3, "Gemma3Text"}, "smollm3": {readSmolLM3, &newSmolLM3, "SmolLM3"},
		"olmo2": {readOLMo2, &newOLMo2, "Olmo2"}, "phi3": {readPhi3, &newPhi3, "Phi3"},
		"olmo3": {readOLMo3, &newOLMo3, "Olmo3"}, "granite": {readGranite, &newGranite, "Granite"}, "granitemoehybrid": {readGraniteHybrid, &newGraniteHybrid, "GraniteMoeHybrid"},
		"ministral3": {readMinistral3, &newMinistral3, "Ministral3"},
		"lfm2":       {readLFM2, &newLFM2, "Lfm2"}, "qwen3_5_text": {readQwen35, &newQwen35, "Qwen3_5Text"},
		"qwen3_5_moe_text": {readQwen35MoE, &newQwen35MoE, "Qwen3_5MoeText"},
		"qwen3_moe":        {readQwen3MoE, &newQwen3MoE, "Qwen3Moe"}, "gpt_oss": {readGPTOSS, &newGPTOSS, "GptOss"},
	} {
		f := Family{
			Kind: kind, Read: row.read, Embeddings: []string{"model.embed_tokens.weight"}, Head: "lm_head.weight", Class: row.class, Root: "model.", Constants: rotaryConstants,
		}
		if row.begin != nil {
			f.New = func(k Keys) (Definition, error) { return row.begin.make(kind, k) }
			f.usual = row.begin.usual
		}
		Register(f)
	}
}

// rotaryConstants follow from config.json, and some files have them.
var rotaryConstants = regexp.MustCompile(`(^|\.)rotary_emb\.(inv_freq|cos_cached|sin_cached)$`)

// readQwen2: biases on q, k and v; a window, if at all, from max_window_layers on.
func readQwen2(c *ConfigReader) (Definition, error) {
	m := c.decoder("qwen2", 10000, 1e-6, false, true)
	m.qkvBias, m.activation = true, c.act("hidden_act", "silu")
	c.qwenWindows(&m)
	return c.finished(m)
}

// readQwen3: q and k normed head by head.
func readQwen3(c *ConfigReader) (Definition, error) {
	c.absent("head_dim", "128")
	m := c.decoder("qwen3", 10000, 1e-6, false, true)
	m.headNorms, m.activation = true, c.act("hidden_act", "silu")
	m.qkvBias = c.Flag("attention_bias", false)
	m.oBias = m.qkvBias
	c.qwenWindows(&m)
	return c.finished(m)
}

func (c *ConfigReader) qwenWindows(m *decoder) {
	from, window := c.optionalCount("max_window_layers", 28), c.optionalSize("sliding_window", 0)
	if !c.Flag("use_sliding_window", false) {
		window = 0
	}
	c.windows(m, window, func(layer int) bool { return window > 0 && layer >= from })
}

// readMistral: a window in every layer.
func readMistral(c *ConfigReader) (Definition, error) {
	m := c.decoder("mistral", 10000, 1e-6, false, true)
	m.activation = c.act("hidden_act", "silu")
	window := c.window(4096)
	c.windows(&m, window, func(int) bool { return window > 0 })
	return c.finished(m)
}

// window is sliding_window: null is none, and what the family has where there is no such key.
func (c *ConfigReader) window(absent int) int {
	if _, there := c.fields["sliding_window"]; !there {
		return absent
	}
	return c.optionalSize("sliding_window", 0)
}

// gemma is what all of Gemma have: gains stored less 1, norms before each part and behind it, an embedding times the square root of the width,
// and scores over that of query_pre_attn_scalar.
func (c *ConfigReader) gemma(kind string, theta float64) decoder {
	c.absent("head_dim", "256")
	m := c.decoder(kind, theta, 1e-6, true, true)
	m.onePlus, m.embeddingScale = true, math.Sqrt(float64(m.width))
	m.attentionNorms = norms{"input_layernorm", "post_attention_layernorm"}
	m.mlpNorms = norms{"pre_feedforward_layernorm", "post_feedforward_layernorm"}
	m.activation = c.act("hidden_activation", "gelu_pytorch_tanh")
	m.qkvBias = c.Flag("attention_bias", false)
	m.oBias = m.qkvBias
	if by := c.Number("query_pre_attn_scalar", 256, false); by != float64(m.headDim) {
		m.scale = 1 / math.Sqrt(by)
	}
	c.mustBe(false, false, "use_bidirectional_attention")
	return m
}

// readGemma2: scores and logits capped, a window in every other layer, from the first on.
func readGemma2(c *ConfigReader) (Definition, error) {
	c.absent("attn_logit_softcapping", "50")
	c.absent("final_logit_softcapping", "30")
	m := c.gemma("gemma2", 10000)
	m.cap, m.logits.cap = c.Number("attn_logit_softcapping", 0, false), c.Number("final_logit_softcapping", 0, false)
	window := c.window(4096)
	c.windows(&m, window, func(layer int) bool { return window > 0 && layer%2 == 0 })
	return c.finished(m, "hidden_act", "sliding_window_size")
}

// readGemma3: q and k normed head by head; a window in all but each sliding_window_pattern-th layer, with frequencies of its own.
func readGemma3(c *ConfigReader) (Definition, error) {
	perKind := c.ropePerKind()
	m := c.gemma("gemma3_text", 1e6)
	m.headNorms = true
	m.cap, m.logits.cap = c.Number("attn_logit_softcapping", 0, false), c.Number("final_logit_softcapping", 0, false)
	pattern := c.optionalSize("sliding_window_pattern", c.optionalSize("_sliding_window_pattern", 6))
	window := c.window(4096)
	c.windows(&m, window, func(layer int) bool { return window > 0 && (layer+1)%pattern != 0 })
	local := rotation{theta: c.Number("rope_local_base_freq", 10000, false), width: m.headDim, rule: "default", amplify: 1}
	c.rotateByKind(&m, perKind, local)
	return c.finished(m, "hidden_act")
}

// ropePerKind are rope_parameters where each kind of layers has its own, which are taken out; nil where all have the same.
func (c *ConfigReader) ropePerKind() map[string]json.RawMessage {
	nested := c.object("rope_parameters")
	if nested[fullAttention] == nil && nested[slidingAttention] == nil {
		return nil
	}
	c.aside["rope_parameters"] = c.fields["rope_parameters"]
	delete(c.fields, "rope_parameters")
	return nested
}

// rotateByKind gives layers with a window a rotation of their own, or each kind that of rope_parameters, where there are such.
func (c *ConfigReader) rotateByKind(m *decoder, perKind map[string]json.RawMessage, local rotation) {
	full := *m.layers[0].rotation
	if perKind != nil {
		full = c.rotationOf(perKind, fullAttention, m.headDim, full.theta)
		local = c.rotationOf(perKind, slidingAttention, m.headDim, local.theta)
	}
	m.rotate(full, local)
}

// rotate gives layers without a window one rotation, and those with one another.
func (m *decoder) rotate(full, local rotation) {
	for i := range m.layers {
		m.layers[i].rotation = &full
		if m.layers[i].window > 0 {
			m.layers[i].rotation = &local
		}
	}
}

// rotationOf is that of a kind of layers in rope_parameters.
func (c *ConfigReader) rotationOf(of map[string]json.RawMessage, kind string, headDim int, theta float64) rotation {
	in := newConfigReader(of)
	fields := in.object(kind)
	c.errs = append(c.errs, in.errs...)
	return c.rotationIn("rope_parameters."+kind, fields, headDim, theta, 1)
}

// imageDefaults are the sizes that text_config of a Gemma 3 with images may leave out.
var imageDefaults = map[string]string{
	"num_attention_heads": "8", "num_key_value_heads": "4", "head_dim": "256", "vocab_size": "262208", "max_position_embeddings": "131072",
	"hidden_size": "2304", "intermediate_size": "9216", "num_hidden_layers": "26",
}

// readSmolLM3: layers without positions, those where no_rope_layers is 0.
func readSmolLM3(c *ConfigReader) (Definition, error) {
	m := c.decoder("smollm3", 2e6, 1e-6, true, true)
	m.qkvBias, m.mlpBias, m.activation = c.Flag("attention_bias", false), c.Flag("mlp_bias", false), c.act("hidden_act", "silu")
	m.oBias = m.qkvBias
	interval := c.optionalSize("no_rope_layer_interval", 4)
	var rotates []int
	for i := range m.layers {
		rotates = append(rotates, min(1, (i+1)%interval))
	}
	if c.has("no_rope_layers") {
		if err := json.Unmarshal(c.fields["no_rope_layers"], &rotates); err != nil || len(rotates) < len(m.layers) {
			c.wrong("no_rope_layers", fmt.Sprintf("%d numbers, 0 for a layer without positions", len(m.layers)))
			return nil, nil
		}
	}
	window := c.optionalSize("sliding_window", 0)
	if !c.Flag("use_sliding_window", false) {
		window = 0
	}
	for i := range m.layers {
		if rotates[i] == 0 {
			m.layers[i].rotation = nil
		}
	}
	c.windows(&m, window, func(layer int) bool { return window > 0 && rotates[layer] == 0 })
	return c.finished(m, "max_window_layers")
}

// readOLMo2: no norms before the parts, but of what they give; q and k normed over all heads at once.
func readOLMo2(c *ConfigReader) (Definition, error) {
	return c.finished(c.olmo("olmo2", 10000))
}

func (c *ConfigReader) olmo(kind string, theta float64) decoder {
	m := c.decoder(kind, theta, 1e-5, false, false)
	m.attentionNorms, m.mlpNorms = norms{behind: "post_attention_layernorm"}, norms{behind: "post_feedforward_layernorm"}
	m.wholeNorms, m.activation = true, c.act("hidden_act", "silu")
	m.qkvBias = c.Flag("attention_bias", false)
	m.oBias = m.qkvBias
	return m
}

// readOLMo3: a window in all but each fourth layer, whose frequencies no rule changes.
func readOLMo3(c *ConfigReader) (Definition, error) {
	perKind := c.ropePerKind()
	m := c.olmo("olmo3", 500000)
	window := c.window(4096)
	c.windows(&m, window, func(layer int) bool { return window > 0 && (layer+1)%4 != 0 })
	c.rotateByKind(&m, perKind, rotation{theta: m.layers[0].rotation.theta, width: m.headDim, rule: "default", amplify: 1})
	return c.finished(m)
}

// readPhi3: q, k and v in one matrix, gate and up in another; a part of each head turned; a window in every layer.
func readPhi3(c *ConfigReader) (Definition, error) {
	m := c.decoder("phi3", 10000, 1e-5, false, false)
	m.fusedQKV, m.mlp, m.activation = true, fusedMLP, c.act("hidden_act", "silu")
	window := c.optionalSize("sliding_window", 0)
	c.windows(&m, window, func(int) bool { return window > 0 })
	c.mustBe(false, false, "attention_bias", "mlp_bias", "lm_head_bias")
	for _, key := range []string{"full_attn_mod", "interpolate_factor"} {
		if c.Number(key, 1, false) != 1 {
			c.wrong(key, "1: others are not supported")
		}
	}
	if rule := m.layers[0].rotation.rule; rule != "default" && rule != "longrope" {
		c.wrong("rope_scaling", "longrope: others are not supported")
	}
	return c.finished(m, "original_max_position_embeddings")
}

// absent gives a key the value that a family has where its file has no such key. It is not written.
func (c *ConfigReader) absent(key, value string) {
	if _, there := c.fields[key]; !there {
		c.fields[key], c.added[key] = json.RawMessage(value), true
	}
}
