package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// A beginning is how a new network of a family is made of a run file's keys: as the config.json that these and the family's own keys are.
type beginning struct {
	architecture string
	eps          float64
	windowed     bool                        // has layers with a window
	own          func(k Keys) map[string]any // keys of config.json that not all families have
	usual        proportions
}

// gated is the usual width of a gated feed-forward part: 8/3 of the width, rounded up to a multiple of 16.
func gated(width int) int { return (8*width + 47) / 48 * 16 }

// expertWidth is that of an expert of a new network, whose tokens take two: half of the usual width, or of what is asked for.
func expertWidth(k Keys) int { return max(1, cmp.Or(k.Intermediate, gated(k.Width))/2) }

func errWindow(kind string, window int) error {
	return fmt.Errorf("model: %s: window: %d, want 0: no layer of it has one", kind, window)
}

func (f *beginning) make(kind string, k Keys) (Definition, error) {
	if k.Window > 0 && !f.windowed {
		return nil, errWindow(kind, k.Window)
	}
	err := cmp.Or(
		sizes(kind, "layers", k.Layers, "heads", k.Heads, "width", k.Width, "context", k.Context, "vocab", k.Vocab), depth(kind, k.Layers),
		positive(kind, "rope theta", k.RopeTheta),
	)
	if err == nil && k.HeadDim == 0 {
		err = dividesBy(kind, "width", k.Width, "heads", k.Heads)
		k.HeadDim = k.Width / k.Heads
	}
	if err != nil {
		return nil, err
	}
	settings := map[string]any{
		"model_type": kind, "architectures": []string{f.architecture}, "vocab_size": k.Vocab, "hidden_size": k.Width,
		"intermediate_size": cmp.Or(k.Intermediate, gated(k.Width)), "num_hidden_layers": k.Layers, "num_attention_heads": k.Heads,
		"num_key_value_heads": cmp.Or(k.KVHeads, k.Heads), "head_dim": k.HeadDim, "max_position_embeddings": k.Context, "rms_norm_eps": f.eps,
		"rope_theta": k.RopeTheta, "rope_scaling": nil, "attention_bias": false, "attention_dropout": 0.0, "initializer_range": 0.02,
		"tie_word_embeddings": k.TieHead, "hidden_act": "silu",
		"bos_token_id": nil, "eos_token_id": nil, "pad_token_id": nil, // other programs put ids of published vocabularies in place of what is missing
	}
	if f.own != nil {
		maps.Copy(settings, f.own(k))
	}
	for key, value := range settings {
		if value == dropKey {
			delete(settings, key)
		}
	}
	raw, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", kind, err)
	}
	return ParseConfig(raw)
}

// dropKey is the value of a key that a family has not.
const dropKey = "\x00"

// orNull is 0 as null.
func orNull(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// qwenKeys: a window in all layers or in none.
func qwenKeys(k Keys) map[string]any {
	keys := map[string]any{"use_sliding_window": k.Window > 0, "sliding_window": orNull(k.Window), "max_window_layers": k.Layers}
	if k.Window > 0 {
		keys["max_window_layers"] = 0
	}
	return keys
}

// qwen35Keys: attention in each fourth layer, the delta rule in the others.
func qwen35Keys(k Keys) map[string]any {
	turned := 0.25
	if k.HeadDim%8 != 0 { // a quarter is no whole pairs
		turned = 1
	}
	dim := k.HeadDim // of the delta rule: published models have 128, with heads of 256 in attention
	for dim > 128 && dim%2 == 0 {
		dim /= 2
	}
	heads := k.Heads * k.HeadDim / dim
	return map[string]any{
		"layer_types": layerTypes(k, linearAttention, func(layer int) bool { return (layer+1)%max(2, min(4, k.Layers)) == 0 }), "partial_rotary_factor": turned, "attn_output_gate": true,
		"linear_conv_kernel_dim": 4, "linear_key_head_dim": dim, "linear_value_head_dim": dim, "linear_num_key_heads": heads, "linear_num_value_heads": heads,
	}
}

func gemmaKeys(k Keys, window int) map[string]any {
	return map[string]any{
		"hidden_act": dropKey, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": k.HeadDim,
		"sliding_window": cmp.Or(k.Window, window),
	}
}

var (
	newQwen2 = beginning{
		architecture: "Qwen2ForCausalLM", eps: 1e-6, windowed: true,
		own: func(k Keys) map[string]any {
			keys := qwenKeys(k)
			keys["attention_bias"] = dropKey
			return keys
		},
		usual: proportions{HeadWidth: 64, AttentionShare: 1, Group: 7, Intermediate: 5.4, Aspect: 38, RopeTheta: 1e6},
	}
	newQwen3 = beginning{
		architecture: "Qwen3ForCausalLM", eps: 1e-6, windowed: true, own: qwenKeys,
		usual: proportions{HeadWidth: 128, AttentionShare: 2, Group: 2, Intermediate: 3, Aspect: 38, RopeTheta: 1e6},
	}
	newMistral = beginning{
		architecture: "MistralForCausalLM", eps: 1e-5, windowed: true,
		own: func(k Keys) map[string]any {
			return map[string]any{"sliding_window": orNull(k.Window), "attention_bias": dropKey}
		},
		usual: proportions{HeadWidth: 128, AttentionShare: 1, Group: 4, Intermediate: 3.5, Aspect: 64, RopeTheta: 1e6},
	}
	newGemma2 = beginning{
		architecture: "Gemma2ForCausalLM", eps: 1e-6, windowed: true,
		own: func(k Keys) map[string]any {
			keys := gemmaKeys(k, 4096)
			keys["attn_logit_softcapping"], keys["final_logit_softcapping"] = 50.0, 30.0
			return keys
		},
		usual: proportions{HeadWidth: 256, AttentionShare: .9, Group: 2, Intermediate: 4, Aspect: 64, RopeTheta: 10000, Tied: true},
	}
	newGemma3 = beginning{
		architecture: "Gemma3ForCausalLM", eps: 1e-6, windowed: true,
		own: func(k Keys) map[string]any {
			keys := gemmaKeys(k, 512)
			keys["sliding_window_pattern"], keys["rope_local_base_freq"] = 6, 10000.0
			return keys
		},
		usual: proportions{HeadWidth: 256, AttentionShare: 1, Group: 4, Intermediate: 4, Aspect: 40, RopeTheta: 1e6, Tied: true},
	}
	newSmolLM3 = beginning{
		architecture: "SmolLM3ForCausalLM", eps: 1e-6, windowed: true,
		own: func(k Keys) map[string]any {
			return map[string]any{"mlp_bias": false, "no_rope_layer_interval": 4, "use_sliding_window": k.Window > 0, "sliding_window": orNull(k.Window)}
		},
		usual: proportions{HeadWidth: 128, AttentionShare: 1, Group: 4, Intermediate: 5.4, Aspect: 57, RopeTheta: 5e6, Tied: true},
	}
	newOLMo2 = beginning{
		architecture: "Olmo2ForCausalLM", eps: 1e-6,
		usual: proportions{HeadWidth: 128, AttentionShare: 1, Group: 1, Intermediate: 4, Aspect: 128, RopeTheta: 500000},
	}
	newPhi3 = beginning{
		architecture: "Phi3ForCausalLM", eps: 1e-5, windowed: true,
		own: func(k Keys) map[string]any {
			return map[string]any{
				"original_max_position_embeddings": k.Context, "sliding_window": orNull(k.Window), "resid_pdrop": 0.0, "embd_pdrop": 0.0,
			}
		},
		usual: proportions{HeadWidth: 128, AttentionShare: 1, Group: 3, Intermediate: 8.0 / 3, Aspect: 96, RopeTheta: 10000},
	}
	newOLMo3 = beginning{
		architecture: "Olmo3ForCausalLM", eps: 1e-6, windowed: true,
		own:   func(k Keys) map[string]any { return map[string]any{"sliding_window": cmp.Or(k.Window, 4096)} },
		usual: proportions{HeadWidth: 128, AttentionShare: 1, Group: 1, Intermediate: 2.7, Aspect: 128, RopeTheta: 500000},
	}
	newGranite = beginning{
		architecture: "GraniteForCausalLM", eps: 1e-5,
		own: func(k Keys) map[string]any {
			return map[string]any{
				"mlp_bias": false, "embedding_multiplier": 12.0, "attention_multiplier": 1 / float64(k.HeadDim), "residual_multiplier": 0.22, "logits_scaling": 8.0,
			}
		},
		usual: proportions{HeadWidth: 64, AttentionShare: 1, Group: 4, Intermediate: 4, Aspect: 51, RopeTheta: 10000, Tied: true},
	}
	newGraniteHybrid = beginning{
		architecture: "GraniteMoeHybridForCausalLM", eps: 1e-5,
		own: func(k Keys) map[string]any {
			keys := newGranite.own(k)
			maps.Copy(keys, map[string]any{
				"shared_intermediate_size": cmp.Or(k.Intermediate, gated(k.Width)), "num_local_experts": 0, "position_embedding_type": "rope",
				"layer_types": slices.Repeat([]string{"attention"}, k.Layers),
			})
			delete(keys, "mlp_bias")
			return keys
		},
		usual: newGranite.usual,
	}
	newQwen3MoE = beginning{
		architecture: "Qwen3MoeForCausalLM", eps: 1e-6, windowed: true,
		own: func(k Keys) map[string]any {
			keys := qwenKeys(k)
			maps.Copy(keys, map[string]any{
				"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": expertWidth(k), "norm_topk_prob": true, "decoder_sparse_step": 1,
				"mlp_only_layers": []int{}, "output_router_logits": false, "router_aux_loss_coef": 0.001,
			})
			return keys
		},
		usual: proportions{HeadWidth: 128, AttentionShare: 2, Group: 4, Intermediate: 3, Aspect: 43, RopeTheta: 1e6},
	}
	newGPTOSS = beginning{
		architecture: "GptOssForCausalLM", eps: 1e-5, windowed: true,
		own: func(k Keys) map[string]any {
			return map[string]any{
				"attention_bias": true, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": expertWidth(k), "sliding_window": cmp.Or(k.Window, 128),
				"swiglu_limit": 7.0, "output_router_logits": false, "router_aux_loss_coef": 0.9,
			}
		},
		usual: proportions{HeadWidth: 64, AttentionShare: 1.4, Group: 8, Intermediate: 2, Aspect: 40, RopeTheta: 150000},
	}
	newMinistral3 = beginning{
		architecture: "Ministral3ForCausalLM", eps: 1e-5, windowed: true,
		own: func(k Keys) map[string]any {
			return map[string]any{"sliding_window": orNull(k.Window), "attention_bias": dropKey}
		},
		usual: proportions{HeadWidth: 128, AttentionShare: 4.0 / 3, Group: 4, Intermediate: 3, Aspect: 118, RopeTheta: 1e6, Tied: true},
	}
	newLFM2 = beginning{
		architecture: "Lfm2ForCausalLM", eps: 1e-5,
		own: func(k Keys) map[string]any {
			return map[string]any{
				"rms_norm_eps": dropKey, "norm_eps": 1e-5, "attention_bias": dropKey, "hidden_act": dropKey, "conv_L_cache": 3, "conv_bias": false, "block_auto_adjust_ff_dim": false,
				"layer_types": layerTypes(k, convolutionLayer, func(layer int) bool { return (layer+1)%max(2, min(3, k.Layers)) == 0 }),
			}
		},
		usual: proportions{HeadWidth: 64, AttentionShare: 1, Group: 3, Intermediate: 4.5, Aspect: 64, RopeTheta: 1e6, Tied: true},
	}
	newQwen35 = beginning{
		architecture: "Qwen3_5ForCausalLM", eps: 1e-6,
		own:   qwen35Keys,
		usual: proportions{HeadWidth: 256, AttentionShare: 2, Group: 4, Intermediate: 3.5, Aspect: 43, RopeTheta: 1e7, Tied: true},
	}
	newQwen35MoE = beginning{
		architecture: "Qwen3_5MoeForCausalLM", eps: 1e-6,
		own: func(k Keys) map[string]any {
			keys := qwen35Keys(k)
			maps.Copy(keys, map[string]any{
				"intermediate_size": dropKey, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": expertWidth(k),
				"shared_expert_intermediate_size": expertWidth(k), "output_router_logits": false, "router_aux_loss_coef": 0.001,
			})
			return keys
		},
		usual: proportions{HeadWidth: 256, AttentionShare: 2, Group: 4, Intermediate: 2.25, Aspect: 43, RopeTheta: 1e7},
	}
)

// layerTypes calls layers by a word, but those of attention.
func layerTypes(k Keys, word string, full func(layer int) bool) (types []string) {
	for i := range k.Layers {
		types = append(types, word)
		if full(i) {
			types[i] = fullAttention
		}
	}
	return types
}
