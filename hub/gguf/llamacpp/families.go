package llamacpp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gputrain/hub/gguf"
)

// family is what is llama.cpp's of a model_type.
type family struct {
	arch     string
	class    string // Hugging Face's, of the network
	permuted bool   // rows of q and k: see permute
	plusOne  bool   // gains are stored less 1
	fused    bool   // queries, keys and values are one matrix, and gate and up
	untied   bool   // the head must be there, if need be as a copy of the embedding
	square   bool   // heads are together as wide as the model
	listed   bool   // a list says which layers have a window, and how wide what differs by layer is
	full     int    // every full-th layer sees all tokens, the others a window; 0: all layers do
	check    func(c *config) error
	told     string                 // a key that tells it from others of its architecture
	keys     func(c *config) []fact // that others have not
	read     func(d *Directory, c map[string]any)
	names    map[string]string // of the tensors of a layer, in place of the usual ones
	bare     map[string]string // of those that are no weight nor bias
}

// fact is a key of an architecture.
type fact struct {
	name  string
	value any
}

var families = map[string]family{
	"llama":      {arch: "llama", class: "LlamaForCausalLM", permuted: true},
	"mistral":    {arch: "llama", permuted: true},
	"qwen2":      {arch: "qwen2", class: "Qwen2ForCausalLM", square: true},
	"qwen3":      {arch: "qwen3", class: "Qwen3ForCausalLM"},
	"qwen3_moe":  {arch: "qwen3moe", class: "Qwen3MoeForCausalLM", check: qwen3MoE, keys: expertKeys, read: readQwen3MoE},
	"gpt_oss":    {arch: "gpt-oss", untied: true, full: 2, check: gptOSS, keys: expertKeys},
	"smollm3":    {arch: "smollm3", class: "SmolLM3ForCausalLM", permuted: true, check: everyFourth},
	"olmo2":      {arch: "olmo2", class: "Olmo2ForCausalLM", untied: true, square: true},
	"olmo3":      {arch: "olmo2", class: "Olmo3ForCausalLM", untied: true, square: true, full: 4, told: slidingWindow, check: olmo3, keys: olmo3Keys, read: readOLMo3},
	"granite":    {arch: "granite", class: "GraniteForCausalLM", permuted: true, keys: graniteKeys, read: readGranite},
	"ministral3": {arch: "mistral3", class: "Ministral3ForCausalLM", permuted: true, keys: ministralKeys, read: readMinistral3},

	"granitemoehybrid": {arch: "granite", permuted: true, check: graniteTurns, keys: graniteKeys},
	"gemma2":           {arch: "gemma2", class: "Gemma2ForCausalLM", plusOne: true, full: 2, check: gemma},
	"gemma3_text":      {arch: "gemma3", class: "Gemma3ForCausalLM", plusOne: true, full: 6, check: gemma},
	"gemma4_text":      {arch: "gemma4", class: "Gemma4ForCausalLM", listed: true, check: gemma4, keys: gemma4Keys, read: readGemma4},
	"phi3":             {arch: "phi3", class: "Phi3ForCausalLM", fused: true, square: true},
	"lfm2":             {arch: "lfm2", class: "Lfm2ForCausalLM", square: true, check: lfm2, keys: lfm2Keys, read: readLFM2, names: lfm2Names},
	"qwen3_5_text":     {arch: "qwen35", class: "Qwen3_5ForCausalLM", check: qwen35, keys: qwen35Keys, read: readQwen35, names: qwen35Names, bare: qwen35Bare},
	"qwen3_5_moe_text": {arch: "qwen35moe", class: "Qwen3_5MoeForCausalLM", check: qwen35, keys: qwen35MoEKeys, read: readQwen35MoE, names: qwen35MoENames, bare: qwen35Bare},
	"gpt2":             {arch: "gpt2", class: "GPT2LMHeadModel"},
}

// key is one of the keys of an architecture.
func (f family) key(name string, value any) gguf.Key {
	return gguf.Key{Name: f.arch + "." + name, Value: value}
}

// maxLayers is LLAMA_MAX_LAYERS of llama.cpp.
const maxLayers = 512

// Families are the model types that are written.
func Families() []string { return slices.Sorted(maps.Keys(families)) }

func familyOf(c *config) (family, error) {
	kind := c.text("model_type")
	f, ok := families[kind]
	if !ok {
		return f, fmt.Errorf("model_type: found %q, wanted one of %s: others are not written as GGUF", kind, strings.Join(Families(), ", "))
	}
	if err := fixed(c); err != nil {
		return f, err
	}
	if f.check != nil {
		if err := f.check(c); err != nil {
			return f, err
		}
	}
	if layers := c.integer("num_hidden_layers", "n_layer"); layers > maxLayers {
		return f, fmt.Errorf("num_hidden_layers: found %d, wanted %d at most: llama.cpp has room for no more", layers, maxLayers)
	}
	if heads, width := c.integer("num_attention_heads"), c.integer("hidden_size"); f.square && heads*c.headDim() != width {
		return f, fmt.Errorf("head_dim: found %d heads of %d in a width of %d, wanted heads that are together as wide as the model: llama.cpp cannot load another %s", heads, c.headDim(), width, kind)
	}
	return f, c.sameWindows(f)
}

// fixed refuses what llama.cpp computes in one way whatever a file says.
func fixed(c *config) error {
	kind := c.text("model_type")
	wanted := map[string]string{"gpt2": "gelu_new", "gemma2": "gelu_pytorch_tanh", "gemma3_text": "gelu_pytorch_tanh", "gemma4_text": "gelu_pytorch_tanh"}[kind]
	keys := []string{"activation_function", "hidden_activation"}
	if wanted == "" {
		wanted, keys = "silu", []string{"hidden_act"}
	}
	for _, key := range keys {
		found := c.text(key)
		same := found == wanted || wanted == "gelu_new" && found == "gelu_pytorch_tanh" || wanted == "silu" && found == "swish"
		if found != "" && !same {
			return fmt.Errorf("%s: found %q, wanted %s: llama.cpp has no other in a %s", key, found, wanted, kind)
		}
	}
	if part := c.share(); part != 1 && !slices.Contains([]string{"phi3", "gemma4_text", "qwen3_5_text", "qwen3_5_moe_text"}, kind) {
		return fmt.Errorf("partial_rotary_factor: found %g, wanted 1: others are not written as GGUF", part)
	}
	for _, key := range []string{"attention_bias", "mlp_bias"} {
		if has, _ := c.fields[key].(bool); has && !slices.Contains([]string{"llama", "granite", "gpt-oss"}, families[kind].arch) {
			return fmt.Errorf("%s: found true, wanted false: llama.cpp has none in a %s", key, kind)
		}
	}
	return nil
}

// everyFourth refuses layers without positions where llama.cpp does not have them.
func everyFourth(c *config) error {
	for i := range c.integer("num_hidden_layers") {
		if has, want := c.rotates(i), (i+1)%4 != 0; has != want {
			return fmt.Errorf("no_rope_layers: found layer %d with positions: %v, wanted %v: llama.cpp leaves them out in every fourth layer", i, has, want)
		}
	}
	return nil
}

// rotates tells whether a layer of a SmolLM3 has positions.
func (c *config) rotates(layer int) bool {
	if has := c.integers("no_rope_layers"); layer < len(has) {
		return has[layer] != 0
	}
	interval := c.integer("no_rope_layer_interval")
	if interval == 0 {
		interval = 4
	}
	return (layer+1)%interval != 0
}

// gemma refuses scales and caps that llama.cpp has fixed.
func gemma(c *config) error {
	scale := c.number("head_dim", 256)
	if layers := c.integer("num_hidden_layers"); layers == map[string]int{"gemma2": 46, "gemma3_text": 62}[c.text("model_type")] { // those of 27B
		scale = float64(c.integer("hidden_size") / max(1, c.integer("num_attention_heads")))
	}
	if by := c.number("query_pre_attn_scalar", 256); by != scale {
		return fmt.Errorf("query_pre_attn_scalar: found %g, wanted %g, by which llama.cpp scales", by, scale)
	}
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		if c.text("model_type") == "gemma2" && c.has(key) && c.number(key, 0) == 0 {
			return fmt.Errorf("%s: found none, wanted one: llama.cpp has no gemma2 without", key)
		}
	}
	if c.text("model_type") == "gemma3_text" && (c.number("attn_logit_softcapping", 0) != 0 || c.number("final_logit_softcapping", 0) != 0) {
		return fmt.Errorf("softcapping: found it in a gemma3_text, wanted none: llama.cpp leaves it out")
	}
	if c.integer("sliding_window") == 0 && c.has("sliding_window") {
		return fmt.Errorf("sliding_window: found none, wanted one: llama.cpp has no %s without windows", c.text("model_type"))
	}
	if tied, said := c.fields["tie_word_embeddings"].(bool); said && !tied {
		return fmt.Errorf("tie_word_embeddings: found false, wanted true: llama.cpp ties them")
	}
	return nil
}
