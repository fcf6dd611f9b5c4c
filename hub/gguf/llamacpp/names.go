package llamacpp

import (
	"fmt"
	"regexp"
	"slices"
)

// outside are tensors outside of layers, by Hugging Face's names.
var outside = map[string]string{
	"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight",
	"model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight", "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
	"model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
	"wte.weight":                             "token_embd.weight", "wpe.weight": "position_embd.weight", "ln_f.weight": "output_norm.weight", "ln_f.bias": "output_norm.bias",
}

// inside are the tensors of a layer.
var inside = map[string]string{
	"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
	"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
	"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
	"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
	"per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm", "layer_scalar": "layer_output_scale",
	"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
	"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}

// fusable are the matrices of which families have either these or those.
var (
	fusable = []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"}
	fused   = []string{"self_attn.qkv_proj", "mlp.gate_up_proj"}
)

// normedBehind are the names of norms in families that have them behind a part.
var normedBehind = map[string]string{
	"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}

// layer is a tensor of a layer: its number, what it is, weight or bias.
var layer = regexp.MustCompile(`^(?:model\.layers|h)\.(\d+)\.(.+)\.(weight|bias)$`)

// bareLayer is one that is neither.
var bareLayer = regexp.MustCompile(`^model\.layers\.(\d+)\.(.+)$`)

// prefix is what GPT-2 is saved with where its head is not tied.
var prefix = regexp.MustCompile(`^transformer\.`)

// tensorName is what llama.cpp calls a tensor.
func (f family) tensorName(name string) (string, error) {
	name = ended(prefix.ReplaceAllString(name, ""))
	if to, ok := outside[name]; ok {
		return to, nil
	}
	if m := bareLayer.FindStringSubmatch(name); m != nil && f.bare[m[2]] != "" {
		return "blk." + m[1] + "." + f.bare[m[2]], nil
	}
	if f.arch == "lfm2" && name == lfm2Norm {
		return "token_embd_norm.weight", nil
	}
	if m := layer.FindStringSubmatch(name); m != nil {
		if f.names != nil {
			if f.names[m[2]] == "" {
				return "", errTensor(name, f)
			}
			return "blk." + m[1] + "." + f.names[m[2]] + "." + m[3], nil
		}
		to, ok := inside[m[2]]
		if behind, is := normedBehind[m[2]]; is && (f.plusOne || f.listed || f.arch == "olmo2") {
			to, ok = behind, true
		}
		if ok && !slices.Contains(map[bool][]string{true: fusable, false: fused}[f.fused], m[2]) {
			return "blk." + m[1] + "." + to + "." + m[3], nil
		}
	}
	return "", errTensor(name, f)
}

func errTensor(name string, f family) error {
	return fmt.Errorf("tensor %q: found one that llama.cpp has no name for in a %s", name, f.arch)
}

// lfm2Norm is the norm before the head of an LFM2.
const lfm2Norm = "model.embedding_norm.weight"
