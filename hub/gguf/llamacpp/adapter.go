package llamacpp

import (
	"fmt"
	"io"
	"strings"

	"gputrain/hub/gguf"
)

// Adapter is low-rank adapters as PEFT names them, of a model with a config.json: tensors base_model.model.MODULE.lora_A.weight [rank, in] and lora_B.weight
// [out, rank].
type Adapter struct {
	Name    string
	Config  []byte
	Tensors []Tensor
	Scales  map[string]float64 // by module: what B (A x) is multiplied by
}

// ConvertAdapter gives the keys and tensors of a file that llama.cpp lays over the model; they are of type F32, F16 or BF16. llama.cpp has one alpha, and
// multiplies by alpha / rank: where modules have other ratios, B takes them up.
func ConvertAdapter(a Adapter, as gguf.Type) ([]gguf.Key, []gguf.Tensor, error) {
	if as != gguf.F32 && as != gguf.F16 && as != gguf.BF16 {
		return nil, nil, fmt.Errorf("llamacpp: convert adapter: type: found %s, wanted f32, f16 or bf16", as)
	}
	keys, tensors, err := convertAdapter(a, as)
	if err != nil {
		return nil, nil, fmt.Errorf("llamacpp: convert adapter: %w", err)
	}
	return keys, tensors, nil
}

func convertAdapter(a Adapter, as gguf.Type) ([]gguf.Key, []gguf.Tensor, error) {
	c, err := parseConfig(a.Config)
	if err != nil {
		return nil, nil, err
	}
	f, err := familyOf(c)
	if err != nil {
		return nil, nil, fmt.Errorf("config.json: %w", err)
	}
	alpha := 0.0
	var tensors []gguf.Tensor
	for _, t := range likeLlama(a.Tensors) {
		if strings.Contains(t.Name, ".mlp.experts.") {
			return nil, nil, fmt.Errorf("tensor %q: found an adapter of experts, wanted none: they are not written for llama.cpp; gputrain merge writes the whole model", t.Name)
		}
		module, part, err := loraPart(t.Name)
		if err != nil {
			return nil, nil, err
		}
		name, err := f.tensorName(module + ".weight")
		if err != nil {
			return nil, nil, err
		}
		if tied, _ := c.fields["tie_word_embeddings"].(bool); tied && name == "output.weight" && !f.untied {
			return nil, nil, fmt.Errorf("tensor %q: found an adapter of a head that is the embedding, wanted none: llama.cpp has no such head; gputrain merge writes the whole model", t.Name)
		}
		scale, ok := a.Scales[module]
		if !ok {
			scale, ok = a.Scales[graniteModules.Replace(module)]
		}
		if !ok || len(t.Shape) != 2 {
			return nil, nil, fmt.Errorf("tensor %q: found no scale of %s, or no matrix", t.Name, module)
		}
		rank := t.Shape[map[string]int{"lora_a": 0, "lora_b": 1}[part]]
		if alpha == 0 {
			alpha = scale * float64(rank)
		}
		factor := scale * float64(rank) / alpha
		tensors = append(tensors, gguf.Tensor{Name: name + "." + part, Type: as, Shape: t.Shape, Write: func(w io.Writer) error {
			x, err := t.Read()
			if err != nil {
				return err
			}
			if f.deltas() && (part == "lora_a") == strings.HasSuffix(module, ".out_proj") { // rows of B, or columns of A
				x = c.delta().reordered(module+".weight", t.Shape, x)
			}
			if part == "lora_b" {
				if x, err = f.outputs(c, module, t.Shape[0], x, factor); err != nil {
					return err
				}
			}
			return write(w, as, x)
		}})
	}
	if float32(alpha) == 0 && alpha != 0 {
		return nil, nil, fmt.Errorf("adapter.lora.alpha: found %g, which is 0 in f32, and llama.cpp takes 0 for a scale of 1: "+
			"gputrain merge writes the whole model", alpha)
	}
	return []gguf.Key{
		{Name: "general.architecture", Value: f.arch},
		{Name: "general.type", Value: "adapter"},
		{Name: "general.name", Value: a.Name},
		{Name: "adapter.type", Value: "lora"},
		{Name: "adapter.lora.alpha", Value: float32(alpha)},
	}, tensors, nil
}

// outputs are the rows of B in llama.cpp's order, multiplied.
func (f family) outputs(c *config, module string, rows int, x []float32, factor float64) ([]float32, error) {
	if m := turned.FindStringSubmatch(module + "."); f.permuted && m != nil {
		x = permute(x, rows, c.heads(m[1]))
	}
	if factor == 1 {
		return x, nil
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(factor * float64(v))
		if out[i]-out[i] != 0 && v-v == 0 {
			return nil, fmt.Errorf("element %d: found %g, which times %g is no f32: gputrain merge writes the whole model", i, v, factor)
		}
	}
	return out, nil
}

// loraPart is the module that a tensor belongs to, and which of its two matrices it is.
func loraPart(name string) (module, part string, err error) {
	rest, ok := strings.CutPrefix(name, "base_model.model.")
	for suffix, part := range map[string]string{".lora_A.weight": "lora_a", ".lora_B.weight": "lora_b"} {
		if module, is := strings.CutSuffix(rest, suffix); ok && is {
			return module, part, nil
		}
	}
	what := "a parameter that is trained whole"
	if strings.HasSuffix(name, ".lora_magnitude_vector") {
		what = "the lengths of rows, of DoRA"
	}
	return "", "", fmt.Errorf("tensor %q: found %s, wanted lora_A and lora_B alone: llama.cpp's adapters have no others; gputrain merge writes the whole model", name, what)
}
