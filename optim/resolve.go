package optim

import (
	"fmt"

	"gputrain/buffers"
)

// resolved is the masks and columns of a plan for the leaves at hand.
type resolved struct {
	values []float32 // leaf l at l*width: the columns, then one value for each route, 1 where the leaf is on it
	width  int
	chosen [][]bool // by route and leaf
	rows   []rowsOf // by leaf, where the plan has a rowRule
	count  int      // of rows
}

// resolve is for some leaves of a model.
func (p *plan) resolve(leaves []buffers.Leaf, whole wholeModel) (*resolved, error) {
	leaves, all := whole.facing(leaves), whole.paths
	r := &resolved{width: p.width()}
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
	if p.rows >= 0 {
		s := p.steps[p.rows]
		var err error
		if r.rows, r.count, err = s.rows.of(leaves, all); err != nil {
			return nil, fmt.Errorf("optim: %s: %w", s.Name, err)
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
