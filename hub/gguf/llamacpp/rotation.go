package llamacpp

import (
	"fmt"
	"io"
	"math"
	"slices"

	"gputrain/hub/gguf"
)

// Tensors by which frequencies are divided: always, up to the original context, and beyond it.
const (
	ropeFactors = "rope_freqs.weight"
	ropeShort   = "rope_factors_short.weight"
	ropeLong    = "rope_factors_long.weight"
)

// rules are those of scaled positions, and of full attention where those of windows have their own; nil for none.
func (c *config) rules() *config {
	scaling, _ := c.fields["rope_scaling"].(map[string]any)
	if parameters, ok := c.fields["rope_parameters"].(map[string]any); ok {
		scaling = parameters
		if full, ok := parameters["full_attention"].(map[string]any); ok {
			scaling = full
		} else if c.text("model_type") == "gemma4_text" {
			scaling = nil
		}
	}
	if scaling == nil && c.text("model_type") == "gemma4_text" {
		scaling = map[string]any{"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
	}
	return &config{scaling}
}

// rule is the name of the rule.
func (c *config) rule() string {
	s := c.rules()
	kind := s.text("rope_type")
	if kind == "" {
		kind = s.text("type")
	}
	if kind == "su" || kind == "yarn" && s.has("short_factor") { // older names
		return "longrope"
	}
	return kind
}

// share is how much of a head turns.
func (c *config) share() float64 {
	return c.rules().number("partial_rotary_factor", c.number("partial_rotary_factor", map[bool]float64{true: 0.25, false: 1}[slices.Contains([]string{"qwen3_5_text", "qwen3_5_moe_text"}, c.text("model_type"))]))
}

// original is how many positions a model began with, before a rule made them more.
func (c *config) original() float64 {
	const key = "original_max_position_embeddings"
	return c.rules().number(key, c.number(key, 0))
}

// reach is how many positions a model has. Files that lengthen one by yarn may say there how many it began with.
func (c *config) reach() int {
	if n := c.context(); c.rule() != "yarn" || float64(n) != c.original() {
		return n
	}
	return int(c.original() * max(1, c.rules().number("factor", 1)))
}

// theta is the base of frequencies.
func (c *config) theta() float64 {
	usual := map[string]float64{"smollm3": 2e6, "gemma3_text": 1e6, "gemma4_text": 1e6, "olmo3": 5e5, "lfm2": 1e6, "gpt_oss": 150000, "qwen3_5_text": 1e7, "qwen3_5_moe_text": 1e7}[c.text("model_type")]
	if usual == 0 {
		usual = 10000
	}
	return c.rules().number("rope_theta", c.number("rope_theta", usual))
}

// rotation are the keys of positions, and tensors of factors.
func (c *config) rotation(f family) (keys []gguf.Key, tensors []gguf.Tensor, err error) {
	if f.arch == "gpt2" {
		return nil, nil, nil
	}
	divide := func(name string, by []float32) {
		tensors = append(tensors, gguf.Tensor{Name: name, Type: gguf.F32, Shape: []int{len(by)}, Write: func(w io.Writer) error { return write(w, gguf.F32, by) }})
	}
	s := c.rules()
	theta := c.theta()
	keys = append(keys, f.key("rope.freq_base", float32(theta)))
	scaled := func(rule string) {
		keys = append(keys, f.key("rope.scaling.type", rule), f.key("rope.scaling.factor", float32(s.number("factor", 1))))
	}
	switch rule := c.rule(); rule {
	case "", "default":
		if f.arch == "gemma4" {
			_, _, wide := c.gemma4Layers()
			divide(ropeFactors, proportional(wide, 1))
		}
	case "linear":
		scaled("linear")
	case "llama3":
		if f.arch != "llama" {
			return nil, nil, fmt.Errorf("rope_scaling: found llama3 in a %s, wanted it in a llama: llama.cpp reads its factors there", f.arch)
		}
		divide(ropeFactors, s.llama3(theta, c.headDim()))
	case "proportional":
		if f.arch != "gemma4" {
			return nil, nil, fmt.Errorf("rope_scaling: found proportional in a %s, wanted it in a gemma4: llama.cpp reads its factors there", f.arch)
		}
		_, _, wide := c.gemma4Layers()
		divide(ropeFactors, proportional(wide, s.number("partial_rotary_factor", 1)))
	case "yarn":
		if err := c.yarn(f); err != nil {
			return nil, nil, err
		}
		scaled("yarn")
		usual := yarnAmplify(s.number("factor", 1))
		if by := s.number("attention_factor", usual); by != usual && f.arch != "mistral3" && f.full == 0 {
			keys = append(keys, f.key("rope.scaling.attn_factor", float32(by/usual)))
		}
		keys = append(keys, f.key("rope.scaling.original_context_length", uint32(c.original())))
	case "longrope":
		if f.arch != "phi3" {
			return nil, nil, fmt.Errorf("rope_scaling: found longrope in a %s, wanted it in a phi3: llama.cpp reads its factors there", f.arch)
		}
		float := func(v float64) float32 { return float32(v) }
		divide(ropeLong, list(s.fields["long_factor"], float))
		divide(ropeShort, list(s.fields["short_factor"], float))
		keys = append(keys, f.key("rope.scaling.attn_factor", float32(s.number("attention_factor", longAmplify(c.context(), c.original())))))
		keys = append(keys, f.key("rope.scaling.original_context_length", uint32(c.original())))
	default:
		return nil, nil, fmt.Errorf("rope_scaling: found %q, wanted default, linear, llama3, yarn or longrope: others are not written as GGUF", rule)
	}
	if f.arch == "phi3" && c.rule() == "" {
		keys = append(keys, f.key("rope.scaling.original_context_length", uint32(c.context())))
	}
	return keys, tensors, nil
}

// longAmplify is what longrope multiplies turned pairs by where attention_factor does not say.
func longAmplify(context int, original float64) float64 {
	if grown := float64(context) / original; grown > 1 {
		return math.Sqrt(1 + math.Log(grown)/math.Log(original))
	}
	return 1
}

// yarnAmplify is that of yarn, by which llama.cpp multiplies besides what a file says.
func yarnAmplify(factor float64) float64 { return 1 + 0.1*math.Log(max(1, factor)) }

// yarnTurns are the turns in the original context between which yarn changes frequencies, where nothing is said.
var yarnTurns = []struct {
	key   string
	usual float64
}{{"beta_fast", 32}, {"beta_slow", 1}}

// yarn refuses what llama.cpp computes otherwise.
func (c *config) yarn(f family) error {
	s := c.rules()
	for _, key := range []string{"mscale", "mscale_all_dim"} {
		if by := s.number(key, 0); f.arch == "mistral3" && by != 1 {
			return fmt.Errorf("rope_scaling: %s: found %g, wanted 1: llama.cpp has no other in a ministral3", key, by)
		} else if by != 0 && f.arch != "mistral3" {
			return fmt.Errorf("rope_scaling: %s: found it with yarn, wanted none: it is not written as GGUF", key)
		}
	}
	if whole, said := s.fields["truncate"].(bool); said && !whole {
		return fmt.Errorf("rope_scaling: truncate: found false, wanted true: llama.cpp has whole pairs")
	}
	if f.arch == "mistral3" {
		if by := s.number("attention_factor", 1); by != 1 {
			return fmt.Errorf("rope_scaling: attention_factor: found %g, wanted 1: llama.cpp has no other in a ministral3", by)
		}
		return nil
	}
	if f.plusOne {
		return fmt.Errorf("rope_scaling: found yarn in a %s, wanted default or linear", f.arch)
	}
	for _, turns := range yarnTurns {
		if found := s.number(turns.key, turns.usual); found != turns.usual {
			return fmt.Errorf("rope_scaling: %s: found %g, wanted %g: llama.cpp computes with its own, whatever a file says", turns.key, found, turns.usual)
		}
	}
	return nil
}

// local refuses a scaling of layers with windows, and finds their base.
func (c *config) local() (theta float64, err error) {
	theta = c.number("rope_local_base_freq", 10000)
	if c.text("model_type") == "olmo3" {
		theta = c.theta()
	}
	parameters, _ := c.fields["rope_parameters"].(map[string]any)
	if local, ok := parameters["sliding_attention"].(map[string]any); ok {
		s := &config{local}
		if kind := s.text("rope_type"); kind != "" && kind != "default" {
			return 0, fmt.Errorf("rope_parameters: sliding_attention: found %q, wanted default: llama.cpp scales full attention alone", kind)
		}
		theta = s.number("rope_theta", theta)
	}
	return theta, nil
}

// llama3 are the factors of Llama 3.1: 1 for frequencies that turn often within the original context, factor for those that turn seldom, and between them a
// mixture.
func (c *config) llama3(theta float64, dim int) (factors []float32) {
	factor, low, high := c.number("factor", 8), c.number("low_freq_factor", 1), c.number("high_freq_factor", 4)
	original := c.number("original_max_position_embeddings", 8192)
	for i := 0; i < dim; i += 2 {
		length := 2 * math.Pi * math.Pow(theta, float64(i)/float64(dim))
		switch {
		case length < original/high:
			factors = append(factors, 1)
		case length > original/low:
			factors = append(factors, float32(factor))
		default:
			smooth := (original/length - low) / (high - low)
			factors = append(factors, float32(1/((1-smooth)/factor+smooth)))
		}
	}
	return factors
}
