package llamacpp

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gputrain/buffers/array"
	"gputrain/hub/gguf"
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
	case f.lessOne(name):
		out := make([]float32, len(x))
		for i, v := range x {
			out[i] = v + 1
		}
		return out
	case f.arch == "gpt2" && conv.MatchString(name):
		return transpose(x, shape[0], shape[1])
	case f.deltas() && strings.HasSuffix(name, ".A_log"):
		return c.delta().reordered(name, shape, qwen35Decay(x))
	case f.deltas():
		return c.delta().reordered(name, shape, x)
	}
	return x
}

// lessOne tells whether gains are stored less 1.
func (f family) lessOne(name string) bool {
	return (f.plusOne || f.deltas() && !strings.Contains(name, ".linear_attn.")) && strings.HasSuffix(name, "norm.weight")
}

// taps are the convolutions, which Hugging Face has as [width, 1, taps] and llama.cpp as [width, taps].
var taps = regexp.MustCompile(`\.(conv\.conv|conv1d)\.weight$`)

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

// blockTensor is a tensor of a layer in llama.cpp's names.
var blockTensor = regexp.MustCompile(`^blk\.(\d+)\.(.+)\.(weight|bias)$`)

// huggingFaceName is the inverse of tensorName.
func (f family) huggingFaceName(name string) (string, error) {
	gpt := f.arch == "gpt2"
	begin := map[bool]string{true: "h.", false: "model.layers."}[gpt]
	if d := (map[string]string{"token_embd_norm.weight": lfm2Norm}); f.arch == "lfm2" && d[name] != "" {
		return d[name], nil
	}
	for outer, to := range outside {
		if to == name && (gpt == !strings.HasPrefix(outer, "model.") || outer == "lm_head.weight") {
			return outer, nil
		}
	}
	if parts := strings.SplitN(name, ".", 3); len(parts) == 3 && parts[0] == "blk" && f.bare != nil {
		for part, to := range f.bare {
			if n, err := strconv.Atoi(parts[1]); err == nil && to == parts[2] && n >= 0 && strconv.Itoa(n) == parts[1] {
				return begin + parts[1] + "." + part, nil
			}
		}
	}
	if parts := blockTensor.FindStringSubmatch(name); parts != nil {
		if n, err := strconv.Atoi(parts[1]); err == nil && n >= 0 && strconv.Itoa(n) == parts[1] {
			for _, names := range []map[string]string{f.names, normedBehind, inside} {
				for part := range names {
					old := strings.HasPrefix(part, "ln_") || strings.HasPrefix(part, "attn.") || strings.HasPrefix(part, "mlp.c_")
					candidate := begin + parts[1] + "." + part + "." + parts[3]
					if to, err := f.tensorName(candidate); err == nil && to == name && old == gpt {
						return unended(candidate), nil
					}
				}
			}
		}
	}
	return "", fmt.Errorf("tensor %.100q: found one that has no place in a %s", name, f.arch)
}

// plainTypes are the types that safetensors has too. Blocks are widened to F32.
var plainTypes = map[gguf.Type]string{gguf.BF16: "BF16", gguf.F16: "F16"}

// parameter undoes what transform does.
func (d *Directory) parameter(name string, info gguf.Info) (array.Tensor, error) {
	p := array.Tensor{DType: cmp.Or(plainTypes[info.Type], "F32")}
	p.Path, p.Shape, p.Hold = name, info.Shape, d.file.Hold
	p.Read = func(dst []float32, first int) error { return d.file.Floats(info.Name, dst, first) }
	switch m := turned.FindStringSubmatch(name); {
	case d.family.permuted && m != nil:
		heads, _ := d.stated.integer("attention.head_count")
		if kv, ok := d.stated.integer("attention.head_count_kv"); ok && m[1] == "k" {
			heads = kv
		}
		rows := info.Shape[0]
		if heads < 1 || rows%(2*heads) != 0 {
			return p, fmt.Errorf("found %d rows for %d heads, wanted pairs of rows in each head", rows, heads)
		}
		p.Read = d.rows(info, func(row int) int {
			width := rows / heads
			h, i := row/width, row%width
			return h*width + 2*(i%(width/2)) + i/(width/2)
		})
	case d.family.lessOne(name):
		p.Read = func(dst []float32, first int) error {
			err := d.file.Floats(info.Name, dst, first)
			for i := range dst {
				dst[i]--
			}
			return err
		}
	case d.family.arch == "gpt2" && conv.MatchString(name):
		if len(info.Shape) != 2 {
			return p, fmt.Errorf("found shape %v, wanted a matrix", info.Shape)
		}
		p.Shape = []int{info.Shape[1], info.Shape[0]}
		p.Read = transposed(info.Shape[0], info.Shape[1], p.Read)
	case d.family.deltas():
		p.Read = d.stated.delta().read(name, info.Shape, p.Read)
	}
	if strings.HasSuffix(name, sharedGate) && len(info.Shape) == 1 {
		p.Shape = []int{1, info.Shape[0]}
	}
	if taps.MatchString(name) && len(info.Shape) == 2 {
		p.Shape = []int{info.Shape[0], 1, info.Shape[1]}
	}
	return p, nil
}

// rows reads the rows of a tensor in another order: from says which one of the file stands where.
func (d *Directory) rows(info gguf.Info, from func(row int) int) func(dst []float32, first int) error {
	width := info.Elements() / info.Shape[0]
	return func(dst []float32, first int) error {
		for len(dst) > 0 {
			skip := first % width
			part := dst[:min(len(dst), width-skip)]
			if err := d.file.Floats(info.Name, part, from(first/width)*width+skip); err != nil {
				return err
			}
			dst, first = dst[len(part):], first+len(part)
		}
		return nil
	}
}

// transposed reads a matrix of some rows as its transpose. Of each row it reads what is asked for and no more.
func transposed(rows, width int, read func(dst []float32, first int) error) func(dst []float32, first int) error {
	return func(dst []float32, first int) error {
		part := make([]float32, len(dst)/rows+1)
		for r := range rows {
			at := (r - first%rows + rows) % rows // where an element of this row is in dst, and then each rows-th
			if at >= len(dst) {
				continue
			}
			n := (len(dst) - at + rows - 1) / rows
			if err := read(part[:n], r*width+(first+at)/rows); err != nil {
				return err
			}
			for i, v := range part[:n] {
				dst[at+i*rows] = v
			}
		}
		return nil
	}
}
