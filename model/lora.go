package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// LoRA says which matrices of a network have an adapter, and of which kind (Hu et al. 2021, arXiv:2106.09685; Liu et al. 2024, arXiv:2402.09353), in
// PEFT's terms. A matrix W [out, in] with an adapter gives W x + scale B (A x), with A [rank, in] and B [out, rank]. The tags are those of package
// train/runfile.
type LoRA struct {
	Rank         int                `yaml:"rank" range:"0..1000000" doc:"rank of the adapters; 0: no adapters"`
	Alpha        float64            `yaml:"alpha" range:"0..1e30" doc:"an adapter's product is multiplied by alpha / rank; 0: 2 x rank"`
	RSLoRA       bool               `yaml:"rslora" doc:"multiply by alpha / sqrt(rank) instead"`
	DoRA         bool               `yaml:"dora" doc:"DoRA: train the length of each row of a matrix apart from its direction"`
	Dropout      float64            `yaml:"dropout" range:"0..0.999" doc:"probability of dropping an element of an adapter's input in training"`
	Target       []string           `yaml:"target" doc:"modules with an adapter: names or ends of names (q_proj), one regular expression of whole names, or all-linear; empty: as PEFT, the queries and values"`
	RankPattern  map[string]int     `yaml:"rank_pattern" doc:"ranks of some modules, by the end of their names or a regular expression of it"`
	AlphaPattern map[string]float64 `yaml:"alpha_pattern" doc:"alphas of some modules, in the same way"`
	Layers       []int              `yaml:"layers" range:"0.." doc:"layers with adapters, counted from 0; empty: all"`
	Save         []string           `yaml:"save" doc:"ends of names of modules that are trained whole, such as lm_head or embed_tokens"`

	rankOrder, alphaOrder []string // the keys of the patterns in the order of a file, where the first that matches counts
}

// AllLinear is the Target of every matrix but that of the output head.
const AllLinear = "all-linear"

// or fills in the defaults.
func (l LoRA) or() LoRA {
	l.Rank = cmp.Or(l.Rank, 8)
	l.Alpha = cmp.Or(l.Alpha, 2*float64(l.Rank))
	return l
}

func (l LoRA) validate() error {
	wrong := func(key string, found any, wanted string) error {
		return fmt.Errorf("model: lora: %s: found %v, wanted %s", key, found, wanted)
	}
	switch {
	case l.Rank < 1 || l.Rank > largest:
		return wrong("rank", l.Rank, fmt.Sprintf("1 to %d", largest))
	case !(l.Alpha > 0 && l.Alpha < 1e30):
		return wrong("alpha", l.Alpha, "a number above 0 and below 1e30")
	case !(l.Dropout >= 0 && l.Dropout < 1):
		return wrong("dropout", l.Dropout, "a probability in [0, 1)")
	case slices.ContainsFunc(l.Layers, func(i int) bool { return i < 0 }):
		return wrong("layers", l.Layers, "numbers from 0")
	}
	for key, rank := range l.RankPattern {
		if rank < 1 || rank > largest {
			return wrong(fmt.Sprintf("rank_pattern: %q", key), rank, fmt.Sprintf("1 to %d", largest))
		}
	}
	for key, alpha := range l.AlphaPattern {
		if !(alpha > 0 && alpha < 1e30) {
			return wrong(fmt.Sprintf("alpha_pattern: %q", key), alpha, "a number above 0 and below 1e30")
		}
	}
	return nil
}

// scale is what the product B A x is multiplied by.
func (l LoRA) scale(rank int, alpha float64) float64 {
	if l.RSLoRA {
		return alpha / math.Sqrt(float64(rank))
	}
	return alpha / float64(rank)
}
