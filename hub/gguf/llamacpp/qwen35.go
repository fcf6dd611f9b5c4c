package llamacpp

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// qwen35Names are the tensors of a layer of a Qwen3.5, and qwen35Bare those that are no weight nor bias.
var (
	qwen35Names = map[string]string{
		"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
		"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
		"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
		"linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha",
		"linear_attn.out_proj": "ssm_out", "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm",
	}
	qwen35Bare = map[string]string{"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"}
)

// qwen35MoENames are those of one with experts, and sharedGate ends the name of the gate of the expert that all tokens take: a row, which llama.cpp has as a vector.
var qwen35MoENames = func() map[string]string {
	names := maps.Clone(qwen35Names)
	maps.Copy(names, map[string]string{
		"mlp.gate": "ffn_gate_inp", expertsGate: "ffn_gate_exps", expertsUp: "ffn_up_exps", expertsDown: "ffn_down_exps", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
		"mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
	})
	for _, dense := range []string{"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
		delete(names, dense)
	}
	return names
}()

const sharedGate = ".mlp.shared_expert_gate.weight"

// deltas tells whether layers have the gated delta rule.
func (f family) deltas() bool { return f.arch == "qwen35" || f.arch == "qwen35moe" }

// delta are the sizes of the gated delta rule.
type delta struct{ heads, keyHeads, keyDim, valueDim int }

func (c *config) delta() delta {
	return delta{
		int(c.number("linear_num_value_heads", 32)), int(c.number("linear_num_key_heads", 16)),
		int(c.number("linear_key_head_dim", 128)), int(c.number("linear_value_head_dim", 128)),
	}
}

func qwen35(c *config) error {
	if d := c.delta(); d.keyDim != d.valueDim {
		return fmt.Errorf("linear_value_head_dim: found %d, wanted linear_key_head_dim, %d: llama.cpp has no others in a qwen3_5", d.valueDim, d.keyDim)
	}
	types, interval := c.texts("layer_types"), c.interval()
	for i, kind := range types {
		if full := kind != "linear_attention"; full != ((i+1)%interval == 0) {
			return fmt.Errorf("layer_types: found %s in layer %d, wanted full_attention in each %d-th layer alone: llama.cpp has an interval", kind, i, interval)
		}
	}
	return mixed(c, func(layer int) bool { return (layer+1)%interval != 0 })
}

// interval is how many layers go to one of attention.
func (c *config) interval() int {
	if at := slices.Index(c.texts("layer_types"), "full_attention"); at >= 0 {
		return at + 1
	}
	if n := len(c.texts("layer_types")); n > 0 {
		return n + 1
	}
	return max(1, int(c.number("full_attention_interval", 4)))
}

func qwen35Keys(c *config) []fact {
	d := c.delta()
	// Positions of text are the same in all sections. llama.cpp gives pair i to section i%3, as far as that goes, and none to what no section reaches.
	sections, third := c.rules().integers("mrope_section"), int32(int(float64(c.headDim())*c.share())/2+2)/3
	each := []int32{third, third, third, 0}
	for i := range each[:min(3, len(sections))] {
		each[i] = max(third, int32(sections[i]))
	}
	return []fact{
		{"full_attention_interval", uint32(c.interval())},
		{"rope.dimension_sections", each},
		{"ssm.conv_kernel", uint32(c.number("linear_conv_kernel_dim", 4))},
		{"ssm.state_size", uint32(d.keyDim)},
		{"ssm.group_count", uint32(d.keyHeads)},
		{"ssm.time_step_rank", uint32(d.heads)},
		{"ssm.inner_size", uint32(d.heads * d.valueDim)},
	}
}

// delta are those of a file.
func (f facts) delta() (d delta) {
	d.keyDim, _ = f.integer("ssm.state_size")
	d.keyHeads, _ = f.integer("ssm.group_count")
	d.heads, _ = f.integer("ssm.time_step_rank")
	inner, _ := f.integer("ssm.inner_size")
	d.valueDim = inner / max(1, d.heads)
	return d
}

func qwen35MoEKeys(c *config) []fact {
	return append(append(qwen35Keys(c), expertKeys(c)...), fact{"expert_shared_feed_forward_length", uint32(c.integer("shared_expert_intermediate_size"))})
}

func readQwen35MoE(d *Directory, c map[string]any) {
	readQwen35(d, c)
	readQwen3MoE(d, c)
	c["shared_expert_intermediate_size"], _ = d.stated.integer("expert_shared_feed_forward_length")
	delete(c, "intermediate_size")
}

func readQwen35(d *Directory, c map[string]any) {
	n := d.stated.delta()
	c["linear_num_value_heads"], c["linear_num_key_heads"], c["linear_key_head_dim"], c["linear_value_head_dim"] = n.heads, n.keyHeads, n.keyDim, n.valueDim
	c["linear_conv_kernel_dim"], _ = d.stated.integer("ssm.conv_kernel")
	interval, _ := d.stated.integer("full_attention_interval")
	var types []string
	for i := range c["num_hidden_layers"].(int) {
		types = append(types, map[bool]string{true: "full_attention", false: "linear_attention"}[(i+1)%max(1, interval) == 0])
	}
	c["layer_types"] = types
	if _, said := c["partial_rotary_factor"]; !said {
		c["partial_rotary_factor"] = 1.0
	}
}

// order is where value heads lie in a tensor: its first items are of keys, then each head has as many; 0 for none. They are columns of the output.
func (d delta) order(name string) (first, each int) {
	_, part, _ := strings.Cut(name, ".linear_attn.")
	switch part, _, _ = strings.Cut(part, "."); part {
	case "in_proj_qkv", "conv1d":
		return 2 * d.keyHeads * d.keyDim, d.valueDim
	case "in_proj_z", "out_proj":
		return 0, d.valueDim
	case "in_proj_a", "in_proj_b", "A_log", "dt_bias":
		return 0, 1
	}
	return 0, 0
}

// from is which item of a tensor stands where in one of llama.cpp's, whose value heads lie by their place under a key head first; back is the inverse.
func (d delta) from(item, first, each int, back bool) int {
	if item < first {
		return item
	}
	head, rest := (item-first)/each, (item-first)%each
	members := d.heads / max(1, d.keyHeads)
	if back {
		head = head%members*d.keyHeads + head/members
	} else {
		head = head%d.keyHeads*members + head/d.keyHeads
	}
	return first + head*each + rest
}

// reordered are elements with their value heads as llama.cpp has them.
func (d delta) reordered(name string, shape []int, x []float32) []float32 {
	first, each := d.order(name)
	if each == 0 || d.heads == d.keyHeads {
		return x
	}
	out, width := make([]float32, len(x)), len(x)/shape[0]
	for i := range x {
		row, column := i/width, i%width
		if strings.Contains(name, ".out_proj") {
			column = d.from(column, first, each, false)
		} else {
			row = d.from(row, first, each, false)
		}
		out[i] = x[row*width+column]
	}
	return out
}

// qwen35Decay are decays as llama.cpp has them.
func qwen35Decay(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(-math.Exp(float64(v)))
	}
	return out
}

// read gives elements of a tensor in the order of Hugging Face's, from those of a file.
func (d delta) read(name string, shape []int, read func(dst []float32, first int) error) func(dst []float32, first int) error {
	if strings.HasSuffix(name, ".A_log") {
		file := read
		read = func(dst []float32, first int) error {
			err := file(dst, first)
			for i, v := range dst {
				dst[i] = float32(math.Log(-float64(v)))
			}
			return err
		}
	}
	first, each := d.order(name)
	if each == 0 || d.heads == d.keyHeads {
		return read
	}
	width := 1 // elements that stay together
	for _, n := range shape[1:] {
		width *= n
	}
	columns, run := 1, width
	if strings.Contains(name, ".out_proj") {
		columns, run = width, 1
	}
	return func(dst []float32, at int) error {
		for len(dst) > 0 {
			item, skip := at/run, at%run
			row := item / columns * columns
			part := dst[:min(len(dst), run-skip)]
			from := d.from(item, first, each, true)
			if columns > 1 {
				from = row + d.from(item-row, first, each, true)
			}
			if err := read(part, from*run+skip); err != nil {
				return err
			}
			dst, at = dst[len(part):], at+len(part)
		}
		return nil
	}
}
