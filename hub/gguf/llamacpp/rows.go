package llamacpp

import (
	"regexp"
	"strings"
)

// turned are the matrices and biases of queries and keys.
var turned = regexp.MustCompile(`\.self_attn\.([qk])_proj\.`)

// conv are the matrices that GPT-2 stores as inputs x outputs.
var conv = regexp.MustCompile(`\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight$`)

// transform changes the elements of a tensor to what llama.cpp computes with.
func (f family) transform(c *config, name string, shape []int, x []float32) []float32 {
	switch m := turned.FindStringSubmatch(name); {
	case f.permuted && m != nil:
		return permute(x, shape[0], c.heads(m[1]))
	case f.plusOne && strings.HasSuffix(name, "norm.weight"):
		out := make([]float32, len(x))
		for i, v := range x {
			out[i] = v + 1
		}
		return out
	case f.arch == "gpt2" && conv.MatchString(name):
		return transpose(x, shape[0], shape[1])
	}
	return x
}

// heads are those of queries, "q", or of keys, "k".
func (c *config) heads(of string) int {
	if kv := c.integer("num_key_value_heads"); of == "k" && kv > 0 {
		return kv
	}
	return c.integer("num_attention_heads")
}

// permute moves the rows of each head. Hugging Face turns row i together with row i + d/2, llama.cpp rows 2i and 2i + 1.
func permute(x []float32, rows, heads int) []float32 {
	out, row, d := make([]float32, len(x)), len(x)/rows, rows/heads
	for h := range heads {
		for i := range d / 2 {
			for part := range 2 {
				from, to := h*d+part*d/2+i, h*d+2*i+part
				copy(out[to*row:(to+1)*row], x[from*row:])
			}
		}
	}
	return out
}

func transpose(x []float32, rows, columns int) []float32 {
	out := make([]float32, len(x))
	for i := range rows {
		for j := range columns {
			out[j*rows+i] = x[i*columns+j]
		}
	}
	return out
}
