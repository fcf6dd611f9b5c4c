package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/hub"
	"gputrain/model"
)

// settings are some of a config.json.
type settings map[string]any

// rotations are the rules of positions that a family has, by name.
var rotations = map[string]settings{
	"as is":  {},
	"linear": {"rope_scaling": settings{"rope_type": "linear", "factor": 3}},
	"llama3": {"rope_scaling": settings{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}},
	"yarn":   {"rope_scaling": settings{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32}},
	"growing": {"rope_parameters": settings{
		"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32, "beta_fast": 4, "beta_slow": 0.5, "mscale": 1, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.3, "rope_theta": 5000,
	}},
	"yarn by 0.8": {"rope_scaling": settings{
		"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 64, "attention_factor": 0.8,
	}},
}

// odd draws a model of a family whose sizes no published one has: heads of another width than the model's over their number, one head of keys or all, rows that are
// no whole blocks, a vocabulary beyond the tokenizer's, biases or none, a head of its own or not.
func odd(r *rand.Rand, kind, rotation string) settings {
	pick := func(from ...int) int { return from[r.IntN(len(from))] }
	heads := pick(1, 2, 3, 6)
	keys := []int{1, heads}[r.IntN(2)]
	c := settings{"model_type": kind, "vocab_size": 311 + pick(0, 1, 18), "tie_word_embeddings": r.IntN(2) == 0, "rms_norm_eps": []float64{1e-5, 1e-6}[r.IntN(2)]}
	if kind == "gpt2" {
		maps.Copy(c, settings{"n_positions": 256, "n_embd": heads * pick(7, 10, 16), "n_head": heads, "n_layer": pick(1, 2, 3), "n_inner": pick(33, 70), "layer_norm_epsilon": c["rms_norm_eps"]})
		delete(c, "rms_norm_eps")
		return c
	}
	maps.Copy(c, settings{
		"max_position_embeddings": 256, "num_attention_heads": heads, "num_key_value_heads": keys, "head_dim": pick(6, 10, 16, 32), "hidden_size": pick(35, 48, 66),
		"num_hidden_layers": pick(1, 2, 5), "intermediate_size": pick(33, 70, 96), "rope_theta": pick(50, 10000, 500000),
	})
	if slices.Contains([]string{"qwen2", "olmo2", "olmo3", "phi3", "lfm2"}, kind) { // llama.cpp has no others
		c["hidden_size"] = heads * c["head_dim"].(int)
	}
	maps.Copy(c, rotations[rotation])
	switch kind {
	case "llama":
		c["attention_bias"], c["mlp_bias"] = r.IntN(2) == 0, r.IntN(2) == 0
	case "granite", "granitemoehybrid":
		maps.Copy(c, settings{
			"attention_bias": r.IntN(2) == 0, "embedding_multiplier": pick(1, 12), "attention_multiplier": 0.3, "residual_multiplier": 0.7, "logits_scaling": pick(1, 3),
		})
		if kind == "granite" {
			c["mlp_bias"] = r.IntN(2) == 0
			break
		}
		c["shared_intermediate_size"], c["num_local_experts"], c["position_embedding_type"] = c["intermediate_size"], 0, "rope"
		c["layer_types"] = slices.Repeat([]string{"attention"}, c["num_hidden_layers"].(int))
	case "qwen3_moe", "gpt_oss":
		experts := pick(3, 8)
		maps.Copy(c, settings{"num_experts": experts, "num_experts_per_tok": pick(1, 2, 3), "moe_intermediate_size": pick(32, 96), "norm_topk_prob": true})
		if kind == "gpt_oss" {
			c["num_local_experts"], c["intermediate_size"], c["sliding_window"] = experts, c["moe_intermediate_size"], pick(1, 7, 40)
			delete(c, "num_experts")
			delete(c, "moe_intermediate_size")
			delete(c, "norm_topk_prob")
			if rotation == "as is" {
				c["rope_scaling"] = nil
			}
		}
	case "olmo3":
		c["num_hidden_layers"], c["sliding_window"] = pick(2, 5), pick(1, 7, 40)
	case "lfm2":
		c["norm_eps"], c["conv_L_cache"], c["block_multiple_of"], c["full_attn_idxs"] = c["rms_norm_eps"], pick(3, 4), 8, []int{1}
		c["num_hidden_layers"], c["block_auto_adjust_ff_dim"] = pick(2, 3, 5), r.IntN(2) == 0
		delete(c, "rms_norm_eps")
		delete(c, "head_dim")
	case "qwen3_5_text", "qwen3_5_moe_text":
		if kind == "qwen3_5_moe_text" {
			maps.Copy(c, settings{
				"num_experts": pick(3, 8), "num_experts_per_tok": pick(2, 3), "moe_intermediate_size": pick(32, 96), "shared_expert_intermediate_size": pick(32, 64),
			})
			delete(c, "intermediate_size")
		}
		keys, width := pick(1, 2), pick(16, 32)
		maps.Copy(c, settings{
			"head_dim": pick(16, 32), "num_hidden_layers": pick(4, 5), "full_attention_interval": pick(2, 4), "linear_num_key_heads": keys, "linear_num_value_heads": keys * pick(1, 2, 3),
			"linear_key_head_dim": width, "linear_value_head_dim": width, "linear_conv_kernel_dim": 4,
		})
	case "mistral":
		c["sliding_window"] = nil
	case "gemma2", "gemma3_text":
		c["tie_word_embeddings"], c["query_pre_attn_scalar"], c["sliding_window"], c["num_hidden_layers"] = true, c["head_dim"], pick(1, 7, 40), pick(2, 7)
		c["rope_local_base_freq"] = pick(50, 10000)
		if kind == "gemma2" {
			delete(c, "rope_local_base_freq")
			c["attn_logit_softcapping"], c["final_logit_softcapping"] = pick(1, 50), pick(2, 30)
		}
	case "gemma4_text":
		own, shared := [][]string{{"sliding_attention", "full_attention"}, {"sliding_attention", "sliding_attention", "full_attention"}}[r.IntN(2)], pick(0, 3)
		types := own
		for i := range shared {
			types = append(slices.Clone(types), own[len(own)-2+(i+1)%2])
		}
		types[len(types)-1] = "full_attention"
		delete(c, "rope_theta")
		maps.Copy(c, settings{
			"tie_word_embeddings": true, "num_hidden_layers": len(types), "layer_types": types, "num_kv_shared_layers": shared, "use_double_wide_mlp": r.IntN(2) == 0,
			"sliding_window": pick(1, 7, 40), "global_head_dim": pick(8, 16, 64), "hidden_size_per_layer_input": pick(0, 6, 32), "attention_k_eq_v": shared == 0,
			"num_global_key_value_heads": []any{nil, 1}[r.IntN(2)], "final_logit_softcapping": []any{nil, 5, 30}[r.IntN(3)],
			"rope_parameters": settings{
				"full_attention":    settings{"rope_type": "proportional", "rope_theta": pick(50, 10000), "partial_rotary_factor": []float64{0.25, 0.5, 1}[r.IntN(3)]},
				"sliding_attention": settings{"rope_type": "default", "rope_theta": pick(50, 10000)},
			},
		})
	case "phi3":
		c["partial_rotary_factor"] = []float64{1, 0.5}[r.IntN(2)]
		turned := int(float64(c["head_dim"].(int))*c["partial_rotary_factor"].(float64)) / 2 * 2
		c["partial_rotary_factor"] = float64(turned) / float64(c["head_dim"].(int))
		if began, is := map[string]int{"longrope, short": 1024, "longrope, long": 64}[rotation]; is {
			var short, long []float64
			for i := range turned / 2 {
				short, long = append(short, 1+float64(i)/7), append(long, 1+3*float64(i))
			}
			c["original_max_position_embeddings"], c["max_position_embeddings"] = began, 2048
			c["rope_scaling"] = settings{"type": "longrope", "short_factor": short, "long_factor": long}
		}
	}
	return c
}

// asProposed is a new model of a family as config template proposes it.
const asProposed = "as proposed"

func proposed(t *testing.T, kind string) (c settings) {
	t.Helper()
	parameters := 2e5
	if kind == "qwen3_5_moe_text" { // a layer of each kind
		parameters = 3e5
	}
	_, def, err := model.Sized(kind, parameters, 320, 256, hub.Exports)
	require.NoError(t, err)
	raw, err := model.ConfigJSON(def, "F32")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &c))
	return c
}

// write writes a model of random numbers under a name, with a tokenizer: of such sizes that each of them counts.
func (c settings) write(t *testing.T, p *place, name string, r *rand.Rand) model.Definition {
	t.Helper()
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	def, err := model.ParseConfig(raw)
	require.NoError(t, err, "%s", raw)
	drawn := func(path string) ([]float32, error) {
		at := slices.IndexFunc(def.Params(), func(p model.Param) bool { return p.Path == path })
		shape := def.Params()[at].Shape
		x, by, mean := make([]float32, array.Elements(shape)), 0.3, 0.0
		if len(shape) > 1 {
			by = 1 / math.Sqrt(float64(min(shape[0], shape[1])))
		} else if strings.HasSuffix(path, "weight") && !strings.HasPrefix(def.Kind(), "gemma") {
			mean = 1
		}
		for i := range x {
			x[i] = float32(mean + by*r.NormFloat64())
		}
		return x, nil
	}
	require.NoError(t, model.Export(p.path(name), def, drawn, model.ExportOptions{DType: "F32"}))
	p.write(t, name+"/tokenizer.json", read(t, p.path("tokenizer", "tokenizer.json")))
	return def
}

// passage trains a tokenizer of 311 tokens, and writes passage.txt, of so many characters, whose ids it returns.
func passage(t *testing.T, p *place, characters int) []int32 {
	t.Helper()
	text := read(t, learnedText)
	p.write(t, "text.txt", text)
	ok(t, p.command("tokenize", "train", p.path("tokenizer"), "--text", p.path("text.txt"), "--vocab-size", "311", "--special", "<|endoftext|>").withoutAdapter())
	part := text[5000 : 5000+characters]
	p.write(t, "passage.txt", part)
	tok := openTokenizer(t, p.path("tokenizer"))
	ids := tok.ids(part)
	return ids
}

// TestLlamaCppShapes: models of random numbers and odd sizes, with every rule of positions, have the same loss in llama.cpp; so have those
// that are proposed.
func TestLlamaCppShapes(t *testing.T) {
	folder := llamaFolder(t)
	p := newPlace(t)
	ids := passage(t, p, 220) // more than a hundred tokens
	for kind, rules := range map[string][]string{
		"llama": {"as is", "as is", "linear", "llama3", "yarn", "yarn by 0.8"}, "mistral": {"as is"}, "qwen2": {"as is", "linear", "yarn"}, "qwen3": {"as is", "as is", "yarn by 0.8"},
		"granite": {"as is", "as is", "linear"}, "granitemoehybrid": {"as is"}, "ministral3": {"growing", "growing"}, "olmo3": {"as is", "yarn"},
		"qwen3_moe": {"as is", "yarn", "linear"}, "gpt_oss": {"as is", "yarn"},
		"smollm3": {"as is", "yarn"}, "olmo2": {"as is", "linear"}, "gemma2": {"as is", "as is"}, "gemma3_text": {"as is", "linear"},
		"phi3": {"as is", "longrope, short", "longrope, long"}, "gpt2": {"as is", "as is"}, "lfm2": {"as is", "as is"}, "qwen3_5_text": {"as is", "as is", "as is"}, "qwen3_5_moe_text": {"as is", "as is"},
		"gemma4_text": {"as is", "as is", "as is", "as is", "as is"},
	} {
		if slices.Contains(model.Kinds(), kind) {
			rules = append(rules, asProposed)
		}
		for i, rule := range rules {
			t.Run(fmt.Sprintf("%s %d %s", kind, i, rule), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(uint64(i), uint64(kind[0])<<8+uint64(kind[len(kind)-1])))
				c := odd(r, kind, rule)
				if rule == asProposed {
					c = proposed(t, kind)
				}
				name := fmt.Sprintf("%s %d", kind, i)
				c.write(t, p, name, r)
				own := p.loss(t, name, "--text", "passage.txt", "--window", "256")
				most := map[string]float64{"f32": 1e-5, "q8_0": 2e-2}
				if kind == "gpt2" || strings.HasPrefix(kind, "gemma") {
					most["f32"] = tableOfGELU
				}
				if _, mixture := c["num_experts"]; mixture && rule == asProposed { // a new router's scores are so close that q8_0 turns choices: f32 judges these
					delete(most, "q8_0")
				}
				for as, most := range most {
					to := p.path(name + " " + as + ".gguf")
					ok(t, p.command("export", p.path(name), "--to", to, "--type", as).withoutAdapter())
					var loss float64
					newJudge(t, folder, map[string]any{"model": to, "context": 256}).ask(t, map[string]any{"loss": ids}, &loss)
					assert.False(t, !(math.Abs(loss-own) <= most), "%v as %s: found a loss of %.7f, wanted %.7f +- %g", c, as, loss, own, most)
					t.Logf("%s: %.7f, %.1e from gputrain's", as, loss, loss-own)
				}
			})
		}
	}
}
