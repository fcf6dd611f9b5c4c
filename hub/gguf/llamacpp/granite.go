package llamacpp

import (
	"fmt"
	"strings"
)

// graniteNumbers are the numbers that a Granite has besides a Llama's, all 1 where a file is silent.
var graniteNumbers = [][2]string{
	{"attention.scale", "attention_multiplier"}, {"embedding_scale", "embedding_multiplier"}, {"residual_scale", "residual_multiplier"}, {"logit_scale", "logits_scaling"},
}

func graniteKeys(c *config) (keys []fact) {
	for _, row := range graniteNumbers {
		keys = append(keys, fact{row[0], float32(c.number(row[1], 1))})
	}
	return keys
}

func readGranite(d *Directory, c map[string]any) {
	for _, row := range graniteNumbers {
		c[row[1]] = d.stated.or(row[0], 1)
	}
}

// graniteTurns refuses a Granite 4 that llama.cpp would turn all the same.
func graniteTurns(c *config) error {
	if c.text("position_embedding_type") != "rope" {
		return fmt.Errorf("position_embedding_type: found %q, wanted rope: llama.cpp turns queries and keys of all", c.text("position_embedding_type"))
	}
	if !c.has("shared_intermediate_size") {
		return fmt.Errorf("shared_intermediate_size: found none, wanted the width of the feed-forward part")
	}
	return nil
}

// Matrices of a Granite 4: of the first llama.cpp has two.
const (
	graniteGateUp = "shared_mlp.input_linear"
	graniteDown   = "shared_mlp.output_linear"
)

// likeLlama are tensors under a Llama's names, with both halves of those that llama.cpp has apart.
func likeLlama(tensors []Tensor) (out []Tensor) {
	for _, t := range tensors {
		begin, end, is := strings.Cut(t.Name, graniteGateUp)
		if !is || len(t.Shape) != 2 {
			t.Name = strings.Replace(t.Name, graniteDown, "mlp.down_proj", 1)
			out = append(out, t)
			continue
		}
		for i, name := range []string{"mlp.gate_proj", "mlp.up_proj"} {
			part := t
			part.Name = begin + name + end
			if !strings.HasSuffix(end, ".lora_A.weight") { // which both have
				part.Shape = []int{t.Shape[0] / 2, t.Shape[1]}
				part.Read = func() ([]float32, error) {
					x, err := t.Read()
					if err != nil {
						return nil, err
					}
					return x[i*len(x)/2 : (i+1)*len(x)/2], nil
				}
			}
			out = append(out, part)
		}
	}
	return out
}

// graniteModules are a Granite 4's modules by a Llama's names.
var graniteModules = strings.NewReplacer("mlp.gate_proj", graniteGateUp, "mlp.up_proj", graniteGateUp, "mlp.down_proj", graniteDown)
