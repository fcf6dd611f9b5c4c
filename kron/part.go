package kron

import "fmt"

// part is what of a plan's state lies in one place, such as a stage: all state of some leaves.
type part struct {
	own        []int // leaves with a state of their own, not dense and not empty: indices in Plan.Leaves, ascending
	dense      []int // dense blocks: indices in Plan.Blocks, ascending, which is the order of their global index
	rows, cols int   // sides of the factors in the tensors of the dense stack: the largest valid sizes among its blocks
}

// part is the part of the plan that has the state of some leaves; nil means all. Errors: a path that is not in the plan, or given twice.
func (p *Plan) part(leaves []string) (part, error) {
	have := make([]bool, len(p.Leaves))
	for i := range have {
		have[i] = leaves == nil
	}
	for _, path := range leaves {
		m, ok := p.Leaf(path)
		if !ok {
			return part{}, fmt.Errorf("kron: part: leaf %q: not in the plan", path)
		}
		if have[m.Index] {
			return part{}, fmt.Errorf("kron: part: leaf %q: given twice", path)
		}
		have[m.Index] = true
	}
	out := part{}
	for i, m := range p.Leaves {
		switch {
		case !have[i] || m.Kind == Empty:
		case m.Kind == Dense:
			for b := m.First; b < m.First+m.Blocks; b++ {
				out.dense = append(out.dense, b)
			}
		default:
			out.own = append(out.own, i)
		}
	}
	for _, b := range out.dense {
		out.rows, out.cols = max(out.rows, p.Blocks[b].Rows), max(out.cols, p.Blocks[b].Cols)
	}
	return out, nil
}

// all is the state of all leaves.
func (p *Plan) all() part {
	all, _ := p.part(nil)
	return all
}

// largestOf is the largest valid sizes among blocks.
func largestOf(blocks []Block) (rows, cols int) {
	for _, b := range blocks {
		rows, cols = max(rows, b.Rows), max(cols, b.Cols)
	}
	return rows, cols
}

// tensorSpec is a tensor of a part's state.
type tensorSpec struct {
	prefix, slot string
	shape        []int
	own          int // which of part.own it belongs to, -1 for the dense stack
}

// tensors lists the state of a part as it is saved.
func (p *Plan) tensors(of part) []tensorSpec {
	var out []tensorSpec
	add := func(prefix string, own, blocks int, left, right []int) {
		per := func(slot string, shape ...int) {
			out = append(out, tensorSpec{prefix, slot, append([]int{blocks}, shape...), own})
		}
		per("Ql", left...)
		per("Ll")
		if right != nil {
			per("Qr", right...)
			per("Lr")
		}
		if p.Config.Rules.RelativeDamping {
			per("rms")
		}
		if own < 0 {
			per("valid_rows")
			per("valid_cols")
		}
	}
	if n := len(of.dense); n > 0 {
		add("dense/", -1, n, []int{of.rows, of.rows}, []int{of.cols, of.cols})
	}
	for own, i := range of.own {
		m := p.Leaves[i]
		rows, cols := largestOf(p.BlocksOf(m))
		left, right := []int{rows, rows}, []int{cols, cols}
		switch m.Kind {
		case Vector:
			left, right = []int{cols}, nil
		case diagonalBoth:
			left, right = []int{rows}, []int{cols}
		case diagonalLeft:
			left = []int{rows}
		case diagonalRight:
			right = []int{cols}
		}
		add("leaf/"+m.Path+"/", own, m.Blocks, left, right)
	}
	return out
}
