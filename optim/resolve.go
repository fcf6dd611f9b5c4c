package optim

import (
	"fmt"
	"slices"

	"gputrain/buffers"
)

// resolved is the masks and columns of a plan for the leaves at hand.
type resolved struct {
	values []float32 // leaf l at l*width: the columns, then one value for each route, 1 where the leaf is on it
	width  int
	chosen [][]bool // by route and leaf
}

func (p *plan) resolve(leaves []buffers.Leaf, whole []buffers.Spec) (*resolved, error) {
	_, all := unplaced(whole)
	leaves = facing(leaves, whole)
	r := &resolved{width: p.columns + len(p.routes)}
	r.values = make([]float32, len(leaves)*r.width)
	set := func(column int, values []float32) {
		for leaf, v := range values {
			r.values[leaf*r.width+column] = v
		}
	}
	for _, s := range p.steps {
		for c, col := range s.columns {
			values, err := col.values(leaves, all)
			if err != nil {
				return nil, fmt.Errorf("optim: %s: %w", s.Name, err)
			}
			set(s.firstColumn+c, values)
		}
	}
	for i, route := range p.routes {
		in, err := chosen(route, leaves, all)
		if err != nil {
			return nil, fmt.Errorf("optim: route: %w", err)
		}
		r.chosen = append(r.chosen, in)
		set(p.columns+i, asFloats(in))
	}
	return r, nil
}

// facing are the leaves with what the model says of how matrices lie, where their tree does not know.
func facing(leaves []buffers.Leaf, whole []buffers.Spec) []buffers.Leaf {
	outIn := map[string]bool{}
	for _, s := range whole {
		outIn[s.Path] = s.OutIn
	}
	leaves = slices.Clone(leaves)
	for i, l := range leaves {
		leaves[i].OutIn = l.OutIn || outIn[l.Path]
	}
	return leaves
}

func asFloats(in []bool) []float32 {
	out := make([]float32, len(in))
	for i, x := range in {
		if x {
			out[i] = 1
		}
	}
	return out
}

func leafElements(leaves []buffers.Leaf, _ []string) ([]float32, error) {
	out := make([]float32, len(leaves))
	for i, l := range leaves {
		out[i] = float32(l.Elements())
	}
	return out, nil
}
