package llamacpp

import (
	"fmt"
	"strings"

	"gputrain/buffers/array"
)

// Experts lie in llama.cpp's files as matrices of gate, of up and of down, [experts, outputs, inputs]. For the time between, they are tensors of a layer named so.
const (
	expertsGate = "mlp.experts.gate"
	expertsUp   = "mlp.experts.up"
	expertsDown = "mlp.experts.down"
)

// qwen3MoE refuses what llama.cpp computes otherwise.
func qwen3MoE(c *config) error {
	if divides, _ := c.fields["norm_topk_prob"].(bool); !divides {
		return fmt.Errorf("norm_topk_prob: found false, wanted true: llama.cpp has weights of experts add up to 1")
	}
	if step := c.integer("decoder_sparse_step"); step > 1 || len(c.integers("mlp_only_layers")) > 0 {
		return fmt.Errorf("decoder_sparse_step, mlp_only_layers: found layers without experts, wanted none: llama.cpp has experts in all")
	}
	return nil
}

// gptOSS refuses what llama.cpp computes otherwise.
func gptOSS(c *config) error {
	if limit, alpha := c.number("swiglu_limit", 7), c.number("swiglu_alpha", 1.702); limit != 7 || alpha != 1.702 {
		return fmt.Errorf("swiglu_limit, swiglu_alpha: found %g and %g, wanted 7 and 1.702: llama.cpp has no others", limit, alpha)
	}
	if biased, said := c.fields["attention_bias"].(bool); said && !biased {
		return fmt.Errorf("attention_bias: found false, wanted true: llama.cpp has no gpt_oss without")
	}
	s := c.rules()
	if usual := yarnAmplify(s.number("factor", 1)); c.rule() == "yarn" && s.number("attention_factor", usual) != usual {
		return fmt.Errorf("rope_scaling: attention_factor: found %g, wanted %g: llama.cpp has no other in a gpt_oss", s.number("attention_factor", usual), usual)
	}
	return nil
}

func expertKeys(c *config) []fact {
	count := func(keys ...string) uint32 { return uint32(c.integer(keys...)) }
	keys := []fact{
		{"expert_count", count("num_experts", "num_local_experts")},
		{"expert_used_count", count("num_experts_per_tok", "experts_per_token")},
		{"expert_feed_forward_length", count("moe_intermediate_size", "intermediate_size")},
	}
	if c.text("model_type") == "gpt_oss" {
		keys = append(keys, fact{slidingWindow, uint32(c.window())})
	}
	return keys
}

func readQwen3MoE(d *Directory, c map[string]any) {
	for _, row := range [][2]string{{"expert_count", "num_experts"}, {"expert_used_count", "num_experts_per_tok"}, {"expert_feed_forward_length", "moe_intermediate_size"}} {
		c[row[1]], _ = d.stated.integer(row[0])
	}
	c["norm_topk_prob"] = true
}

// apart are tensors with gate and up of experts apart, each [experts, outputs, inputs].
func (f family) apart(tensors []Tensor) (out []Tensor) {
	turned := f.arch == "gpt-oss" // matrices are [inputs, outputs], and columns gate and up in turn
	for _, t := range tensors {
		begin, what, is := strings.Cut(t.Name, "mlp.experts.")
		bias := strings.HasSuffix(what, "_bias")
		if is && bias { // as of matrices with one input
			t.Shape = []int{t.Shape[0], 1, t.Shape[1]}
		}
		end := map[bool]string{true: ".bias", false: ".weight"}[bias]
		switch what = strings.TrimSuffix(what, "_bias"); {
		case strings.HasSuffix(t.Name, ".sinks"):
			t.Name += ".weight"
			out = append(out, t)
		case is && what == "down_proj":
			out = append(out, t.part(begin+expertsDown+end, 0, 1, turned, bias))
		case is && what == "gate_up_proj":
			out = append(out, t.part(begin+expertsGate+end, 0, 2, turned, bias), t.part(begin+expertsUp+end, 1, 2, turned, bias))
		default:
			out = append(out, t)
		}
	}
	return out
}

// part is the i-th of so many parts of the outputs of matrices [experts, outputs, inputs], or turned ones [experts, inputs, outputs], whose parts are in turn.
func (t Tensor) part(name string, i, parts int, turned, flat bool) Tensor {
	experts, outputs, inputs := t.Shape[0], t.Shape[1]/parts, t.Shape[2]
	if turned {
		outputs, inputs = t.Shape[2]/parts, t.Shape[1]
	}
	p := Tensor{Name: name, Shape: []int{experts, outputs, inputs}}
	if flat {
		p.Shape = []int{experts, outputs}
	}
	p.Read = func() ([]float32, error) {
		x, err := t.Read()
		if err != nil {
			return nil, err
		}
		y := make([]float32, 0, experts*outputs*inputs)
		for e := range experts {
			of := x[e*len(x)/experts : (e+1)*len(x)/experts]
			if !turned {
				y = append(y, of[i*outputs*inputs:(i+1)*outputs*inputs]...)
				continue
			}
			for o := range outputs {
				for in := range inputs {
					y = append(y, of[in*outputs*parts+o*parts+i])
				}
			}
		}
		return y, nil
	}
	return p
}

// oneByOne are the matrices of experts as Hugging Face's files have them, of a tensor that has all; else the tensor alone.
func oneByOne(t array.Tensor) []array.Tensor {
	begin, what, is := strings.Cut(t.Path, "mlp.experts.")
	if !is || len(t.Shape) != 3 {
		return []array.Tensor{t}
	}
	out := make([]array.Tensor, t.Shape[0])
	for e := range out {
		out[e] = t
		out[e].Path = fmt.Sprintf("%smlp.experts.%d.%s_proj.weight", begin, e, strings.TrimSuffix(what, ".weight"))
		out[e].Shape = t.Shape[1:]
		out[e].Read = func(dst []float32, first int) error { return t.Read(dst, first+e*t.Shape[1]*t.Shape[2]) }
	}
	return out
}
