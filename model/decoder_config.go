package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"gputrain/internal/suggest"
)

// idleKeys are those of config.json that change no number of a decoder: what it is called, how it was stored, how text is drawn from it.
var idleKeys = []string{
	"architectures", "auto_map", "bad_words_ids", "begin_suppress_tokens", "cache_implementation", "chunk_size_feed_forward", "cross_attention_hidden_size",
	"decoder_start_token_id", "diversity_penalty", "do_sample", "dtype", "early_stopping", "encoder_no_repeat_ngram_size",
	"exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label", "is_llama_config", "label2id",
	"length_penalty", "max_length", "min_length", "model_type", "num_labels", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
	"output_attentions", "output_hidden_states", "output_scores", "prefix", "pretraining_tp", "problem_type", "remove_invalid_values",
	"repetition_penalty", "return_dict", "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature",
	"tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript", "transformers.js_config",
	"transformers_version", "typical_p", "use_bfloat16", "use_cache", "use_return_dict",
}

// idleForms are the forms of keys that change no number: token ids, and what programs note for themselves.
var idleForms = regexp.MustCompile(`^_|_token_ids?$|_token_index$|^unsloth_`)

// refuseUnknown refuses keys that nobody has asked for, unless they are known to change no number, or null. idle are more of these.
func (c *ConfigReader) refuseUnknown(idle ...string) {
	for _, key := range slices.Sorted(maps.Keys(c.fields)) {
		if c.used[key] || string(c.fields[key]) == "null" || slices.Contains(idleKeys, key) || slices.Contains(idle, key) || idleForms.MatchString(key) {
			continue
		}
		known := append(slices.Collect(maps.Keys(c.used)), idleKeys...)
		slices.Sort(known)
		c.wrong(key, "no such key: what it changes is not known"+suggest.DidYouMean(key, known))
	}
}

// decoder reads what all decoders have. theta, eps and tied are what the family has where config.json does not say. hasKV: it says how many
// key and value heads there are; else there may be as many as heads.
func (c *ConfigReader) decoder(kind string, theta, eps float64, tied, hasKV bool) decoder {
	m := decoder{
		kind: kind, layerSizes: layerSizes{heads: c.Size("num_attention_heads"), intermediate: c.Size("intermediate_size")}, width: c.Size("hidden_size"),
		vocab: c.Size("vocab_size"), context: c.Size("max_position_embeddings"), eps: c.Number("rms_norm_eps", eps, false),
		initStd: c.Number("initializer_range", 0.02, false), tied: c.Flag("tie_word_embeddings", tied),
		attentionNorms: llamaNorms[0], mlpNorms: llamaNorms[1], lastNorm: "norm", attends: llamaAttention, mlp: llamaMLP, activation: "silu",
	}
	if _, there := c.fields["num_key_value_heads"]; hasKV && !there {
		c.Size("num_key_value_heads")
	}
	m.kvHeads = c.optionalSize("num_key_value_heads", m.heads)
	m.headDim = c.optionalSize("head_dim", 0)
	if m.headDim == 0 {
		if m.width%m.heads != 0 {
			c.wrong("head_dim", "it where hidden_size is no multiple of num_attention_heads")
		}
		m.headDim = max(1, m.width/m.heads)
	}
	for _, key := range dropoutKeys {
		p := c.Number(key, 0, true)
		if m.dropout = max(m.dropout, p); p >= 1 {
			c.wrong(key, "a probability in [0, 1)")
		}
	}
	layers := c.Size("num_hidden_layers")
	if layers > deepest {
		c.wrong("num_hidden_layers", fmt.Sprintf("at most %d", deepest))
		layers = 1
	}
	rotation := c.rotation(m.headDim, theta)
	for range layers {
		m.layers = append(m.layers, decoderLayer{rotation: &rotation})
	}
	c.mustBeNull("pruned_heads")
	c.mustBe(false, false, "is_encoder_decoder", "add_cross_attention", "rope_interleaved", "use_mrope")
	return m
}

// act reads the activation of the gate.
func (c *ConfigReader) act(key, absent string) string {
	activation, ok := map[string]string{"silu": "silu", "swish": "silu", "gelu_pytorch_tanh": "gelu_tanh"}[c.text(key, absent)]
	if !ok {
		c.wrong(key, absent+": others are not supported")
	}
	return activation
}

// windows gives layers the window of config.json: those that layer_types calls sliding, or without it those that are told.
func (c *ConfigReader) windows(m *decoder, window int, sliding func(layer int) bool) {
	types := []string(nil)
	if c.has("layer_types") {
		if err := json.Unmarshal(c.fields["layer_types"], &types); err != nil || len(types) != len(m.layers) {
			c.wrong("layer_types", fmt.Sprintf("a list of %d words", len(m.layers)))
			return
		}
	}
	for i := range m.layers {
		is := sliding(i)
		if types != nil {
			is = types[i] == slidingAttention
			if !is && types[i] != fullAttention {
				c.wrong("layer_types", fmt.Sprintf("%s or %s: others are not supported", fullAttention, slidingAttention))
				return
			}
		}
		switch {
		case is && window == 0:
			c.wrong("sliding_window", "the keys that layers of layer_types see")
			return
		case is:
			m.layers[i].window = window
		}
	}
}

// Words of layer_types.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
	linearAttention  = "linear_attention"
	convolutionLayer = "conv"
)

// mixers gives layers that layer_types calls by a word a mixer, or without it those that are told; others have attention.
func (c *ConfigReader) mixers(m *decoder, word string, with mixer, is func(layer int) bool) {
	types := make([]string, len(m.layers))
	for i := range types {
		types[i] = fullAttention
		if is(i) {
			types[i] = word
		}
	}
	if c.has("layer_types") {
		if err := json.Unmarshal(c.fields["layer_types"], &types); err != nil || len(types) != len(m.layers) {
			c.wrong("layer_types", fmt.Sprintf("a list of %d words", len(m.layers)))
			return
		}
	}
	for i, kind := range types {
		switch kind {
		case word:
			m.layers[i] = decoderLayer{mixer: with}
		case fullAttention, "attention":
		default:
			c.wrong("layer_types", fmt.Sprintf("%s or %s: others are not supported", fullAttention, word))
			return
		}
	}
}

// finished is the decoder that was read, with what is wrong of it; idle are keys of the family that change nothing.
func (c *ConfigReader) finished(m decoder, idle ...string) (Definition, error) {
	c.used[quantizationKey], c.used[poolingKey] = true, true
	c.refuseUnknown(idle...)
	if len(c.errs) > 0 {
		return nil, nil
	}
	for _, l := range m.layers {
		m.context = l.rotation.reach(m.context)
	}
	m.settings, m.read = map[string]any{}, true
	for _, fields := range []map[string]json.RawMessage{c.fields, c.aside} {
		for key, value := range fields {
			if key != quantizationKey && !c.added[key] {
				m.settings[key] = value
			}
		}
	}
	return m, m.validate()
}

func (m decoder) validate() error {
	return cmp.Or(
		sizes(m.kind, "layers", len(m.layers), "heads", m.heads, "kv heads", m.kvHeads, "head dim", m.headDim, "width", m.width, "vocab", m.vocab,
			"context", m.context, "intermediate", m.intermediate),
		depth(m.kind, len(m.layers)),
		dividesBy(m.kind, "heads", m.heads, "kv heads", max(1, m.kvHeads)),
		positive(m.kind, "rms norm eps", m.eps),
		positive(m.kind, "initial deviation", m.initStd),
	)
}
