package model

import (
	"cmp"
	"fmt"
	"math"
	"regexp"

	"gputrain/graph"
)

func init() {
	f := Family{
		Kind: "gemma4_text", Read: readGemma4, Embeddings: []string{"model.embed_tokens.weight", perLayerTable}, Head: "lm_head.weight", Class: "Gemma4Text", Root: "model.",
		Dead: borrowersOwn, usual: newGemma4.usual,
	}
	f.New = func(k Keys) (Definition, error) { return newGemma4.make("gemma4_text", k) }
	Register(f)
}

// newGemma4 has no embeddings of layers, and all layers have keys and values of their own.
var newGemma4 = beginning{
	architecture: "Gemma4ForCausalLM", eps: 1e-6, windowed: true,
	own: func(k Keys) map[string]any {
		return map[string]any{
			"hidden_act": dropKey, "rope_theta": dropKey, "rope_scaling": dropKey, "hidden_activation": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0,
			"sliding_window": cmp.Or(k.Window, 512), "global_head_dim": 2 * k.HeadDim, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
			"rope_parameters": map[string]any{
				fullAttention:    map[string]any{"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 100 * k.RopeTheta},
				slidingAttention: map[string]any{"rope_type": "default", "rope_theta": k.RopeTheta},
			},
		}
	},
	usual: proportions{HeadWidth: 256, AttentionShare: 1, Group: 4, Intermediate: 4, Aspect: 44, RopeTheta: 10000, Tied: true},
}

// borrowersOwn are keys and values of layers, which files have of those too that read another's.
var borrowersOwn = regexp.MustCompile(`^model\.layers\.\d+\.self_attn\.(k_proj|v_proj|k_norm)\.(weight|bias)$`)

// readGemma4: layers without a window have wider heads, of which a part turns; the last layers read the keys and values of earlier ones; values are normed;
// and each layer has an embedding of its own of the tokens.
func readGemma4(c *ConfigReader) (Definition, error) {
	c.absent("head_dim", "256")
	c.absent("hidden_size_per_layer_input", "256")
	perKind := c.ropePerKind()
	m := c.decoder("gemma4_text", 10000, 1e-6, true, true)
	m.embeddingScale, m.scale, m.headNorms, m.valueNorms, m.layerScalar = math.Sqrt(float64(m.width)), 1, true, true, true
	m.attentionNorms = norms{"input_layernorm", "post_attention_layernorm"}
	m.mlpNorms = norms{"pre_feedforward_layernorm", "post_feedforward_layernorm"}
	m.activation, m.logits.cap = c.act("hidden_activation", "gelu_pytorch_tanh"), c.Number("final_logit_softcapping", 0, false)
	m.qkvBias = c.Flag("attention_bias", false)
	m.oBias = m.qkvBias
	m.perLayer = perLayer{width: c.optionalCount("hidden_size_per_layer_input", 0), vocab: c.optionalSize("vocab_size_per_layer_input", m.vocab)}
	if m.perLayer.vocab < m.vocab {
		c.wrong("vocab_size_per_layer_input", fmt.Sprintf("%d, the vocab_size, or more", m.vocab))
	}
	c.mustBe(false, false, "enable_moe_block")
	if both := c.text("use_bidirectional_attention", "vision"); both != "vision" {
		c.wrong("use_bidirectional_attention", "null or vision: others are not supported")
	}
	if c.has("rope_parameters") {
		c.wrong("rope_parameters", fmt.Sprintf("an object for each of %s and %s", fullAttention, slidingAttention))
	}

	window := c.optionalSize("sliding_window", 512)
	c.windows(&m, window, func(layer int) bool { return (layer+1)%6 != 0 })
	m.layers[len(m.layers)-1].window = 0
	full, local := m.layerSizes, rotation{theta: 10000, width: m.headDim, rule: "default", amplify: 1}
	full.headDim = c.optionalSize("global_head_dim", 512)
	same := c.Flag("attention_k_eq_v", false)
	if global := c.optionalSize("num_global_key_value_heads", m.kvHeads); same {
		full.kvHeads = global
	}
	global := rotation{theta: 1e6, width: full.headDim, rule: "proportional", still: full.headDim/2 - full.headDim/8, amplify: 1}
	if perKind[fullAttention] != nil {
		global = c.rotationOf(perKind, fullAttention, full.headDim, global.theta)
	}
	if perKind[slidingAttention] != nil {
		local = c.rotationOf(perKind, slidingAttention, m.headDim, local.theta)
	}
	m.rotate(global, local)
	if full.kvHeads < 1 || full.heads%full.kvHeads != 0 {
		c.wrong("num_global_key_value_heads", fmt.Sprintf("a divisor of %d heads", full.heads))
	}
	for i := range m.layers {
		if m.layers[i].window == 0 {
			own := full
			m.layers[i].sizes, m.layers[i].kAsV = &own, same
		}
	}
	c.borrow(&m)
	return c.finished(m, "hidden_act", "num_experts", "top_k_experts", "moe_intermediate_size")
}

// borrow has the last num_kv_shared_layers read keys and values of the last layer of their kind before them.
func (c *ConfigReader) borrow(m *decoder) {
	shared, wide := c.optionalCount("num_kv_shared_layers", 0), c.Flag("use_double_wide_mlp", false)
	first, last := len(m.layers)-shared, map[bool]int{} // by whether there is a window
	if shared > 0 && first < 1 {
		c.wrong("num_kv_shared_layers", fmt.Sprintf("at most %d, fewer than there are layers", len(m.layers)-1))
		return
	}
	for i := range m.layers {
		l := &m.layers[i]
		if i < first {
			last[l.window > 0] = i
			continue
		}
		from, there := last[l.window > 0]
		if !there {
			c.wrong("num_kv_shared_layers", fmt.Sprintf("a layer of the kind of layer %d before layer %d, whose keys and values it reads", i, first))
			return
		}
		l.borrows, l.kAsV = i-from, false
		if wide {
			own := m.at(i)
			own.intermediate *= 2
			l.sizes = &own
		}
	}
}

// perLayer are embeddings of tokens that each layer has of its own: width 0: none. Their table is as wide as all layers' together.
type perLayer struct{ width, vocab int }

const perLayerTable = "model.embed_tokens_per_layer.weight"

// perLayerParams are those of what stands beside layers and behind them.
func (m decoder) perLayerParams() (params []Param) {
	norm := func(path string, width int) {
		params = append(params, Param{Path: path + ".weight", Shape: []int{width}, Value: 1})
	}
	matrix := func(path string, out, in int) {
		params = append(params, Param{Path: path, Shape: []int{out, in}, Std: m.initStd})
	}
	width := m.perLayer.width
	if width > 0 {
		params = append(params, Param{Path: perLayerTable, Shape: []int{m.perLayer.vocab, len(m.layers) * width}, Std: m.initStd, Table: true})
		matrix("model.per_layer_model_projection.weight", len(m.layers)*width, m.width)
		norm("model.per_layer_projection_norm", width)
	}
	for i := range m.layers {
		l := fmt.Sprintf("model.layers.%d.", i)
		if width > 0 {
			matrix(l+"per_layer_input_gate.weight", width, m.width)
			matrix(l+"per_layer_projection.weight", m.width, width)
			norm(l+"post_per_layer_input_norm", m.width)
		}
		if m.layerScalar {
			params = append(params, Param{Path: l + "layer_scalar", Shape: []int{1}, Value: 1, Fixed: true})
		}
	}
	return params
}

// besideLayers is what layers have of the tokens besides x [N, width], all layers' [N, layers*width] one behind the other: the mean of a projection of x and
// of their embeddings, times the root of 2; nil without.
func (m decoder) besideLayers(b *Builder, x *graph.Value) *graph.Value {
	width := m.perLayer.width
	if width == 0 {
		return nil
	}
	n, all := b.batch*b.seq, len(m.layers)*width
	of := b.Scale(b.Linear(x, "model.per_layer_model_projection.weight"), 1/math.Sqrt(float64(m.width)))
	of = b.Reshape(m.norm(b, b.Reshape(of, n*len(m.layers), width), "model.per_layer_projection_norm"), n, all)
	own := b.Scale(b.flat(b.Tokens(b.Read(perLayerTable)), all), math.Sqrt(float64(width)))
	return b.Scale(b.Add(of, own), math.Sqrt2/2)
}

// endLayer adds to x [N, width] what a layer makes of its part of beside, and multiplies it by the layer's number.
func (m decoder) endLayer(b *Builder, x, beside *graph.Value, layer int) *graph.Value {
	l, width := fmt.Sprintf("model.layers.%d.", layer), m.perLayer.width
	if width > 0 {
		y := b.Mul(b.Apply(m.activation, b.Linear(x, l+"per_layer_input_gate.weight")), b.Slice(beside, 1, layer*width, width))
		x = b.Add(x, m.norm(b, b.Linear(y, l+"per_layer_projection.weight"), l+"post_per_layer_input_norm"))
	}
	if m.layerScalar {
		x = b.Mul(x, b.Read(l+"layer_scalar"))
	}
	return x
}
