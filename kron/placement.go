package kron

import (
	"fmt"
	"slices"
)

// Part is what of a plan's state lies in one place: leaves outside the dense stack, and blocks of the dense stack. Make one
// with Plan.Part or Plan.Run.
type Part struct {
	Own     []int // leaves with a state of their own, not dense and not empty: indices in Plan.Leaves, ascending
	Dense   []int // dense blocks: indices in Plan.Blocks, ascending, which is the order of their global index
	Padding int   // further places in the dense stack, after its blocks, that hold no block
	// Rows and Cols are the sides of the factors in the stack's tensors: the largest valid sizes among its blocks, for a run those of the
	// whole model, so that all places have the same shapes.
	Rows, Cols int
}

// Part is the part of the plan that has all state of some leaves, such as those of a stage; nil means all leaves. Errors: a path that is
// not in the plan, or given twice.
func (p *Plan) Part(leaves []string) (Part, error) {
	have, err := p.chosen(leaves)
	if err != nil {
		return Part{}, err
	}
	return p.part(have), nil
}

// all is the state of all leaves.
func (p *Plan) all() Part { return p.part(slices.Repeat([]bool{true}, len(p.Leaves))) }

// part is all state of the leaves that it has.
func (p *Plan) part(have []bool) Part {
	part := Part{}
	for i, m := range p.Leaves {
		switch {
		case !have[i] || m.Kind == Empty:
		case m.Kind == Dense:
			for b := m.First; b < m.First+m.Blocks; b++ {
				part.Dense = append(part.Dense, b)
			}
		default:
			part.Own = append(part.Own, i)
		}
	}
	for _, b := range part.Dense {
		part.Rows, part.Cols = max(part.Rows, p.Blocks[b].Rows), max(part.Cols, p.Blocks[b].Cols)
	}
	return part
}

// Run is the part of the plan that has a run of the dense stack, the blocks of global index first to first+count-1, whatever leaves they
// are of, and all state of the given leaves that are not dense (nil means none). Places of the run behind the last block are padding.
// Errors: those of Part, and a negative first or count.
func (p *Plan) Run(leaves []string, first, count int) (Part, error) {
	if first < 0 || count < 0 {
		return Part{}, fmt.Errorf("kron: run: blocks from %d, %d of them: wanted 0 or more", first, count)
	}
	all := p.all()
	part, err := p.Part(leaves)
	if leaves == nil {
		part.Own = nil
	}
	begin, end := min(first, p.dense), min(first+count, p.dense)
	part.Dense, part.Padding = all.Dense[begin:end:end], count-(end-begin)
	part.Rows, part.Cols = all.Rows, all.Cols
	return part, err
}

// Paths are the leaves that have gradients in a part, in order.
func (p *Plan) Paths(part Part) []string {
	leaves := slices.Clone(part.Own)
	for _, b := range part.Dense {
		leaves = append(leaves, p.Blocks[b].Leaf)
	}
	slices.Sort(leaves)
	var paths []string
	for _, i := range slices.Compact(leaves) {
		paths = append(paths, p.Leaves[i].Path)
	}
	return paths
}

// chosen tells for each leaf whether it is among the paths; nil means all.
func (p *Plan) chosen(paths []string) ([]bool, error) {
	have := make([]bool, len(p.Leaves))
	for i := range have {
		have[i] = paths == nil
	}
	for _, path := range paths {
		m, ok := p.Leaf(path)
		if !ok {
			return nil, fmt.Errorf("kron: part: leaf %q: not in the plan", path)
		}
		if have[m.Index] {
			return nil, fmt.Errorf("kron: part: leaf %q: given twice", path)
		}
		have[m.Index] = true
	}
	return have, nil
}

// largestOf is the largest valid sizes among blocks.
func largestOf(blocks []Block) (rows, cols int) {
	for _, b := range blocks {
		rows, cols = max(rows, b.Rows), max(cols, b.Cols)
	}
	return rows, cols
}

// Placement tells where each tensor of an optimizer's state lies, for params that lie in numbered places (stages, or devices).
type Placement struct {
	Parts []Part // by place
	plan  *Plan
	at    []int // of each leaf of the plan
	axis  int
}

// Place puts state beside its params: what is shaped like a leaf, and the factors of a leaf outside the dense stack, where the leaf is. at
// gives the place of each leaf, counted from 0. With an axis of 0 dense blocks follow their leaves too, and each place has a stack of its
// own. Otherwise the one dense stack is divided over places 0 to axis-1, in runs of one length by global index: it is padded to a
// multiple of axis, and a place needs the gradients of Plan.Paths of its part. Errors: a leaf without a place, a path that is not in
// the plan, a negative place or axis.
func (p *Plan) Place(at map[string]int, axis int) (*Placement, error) {
	if axis < 0 {
		return nil, fmt.Errorf("kron: place: axis: found %d, wanted 0 or more", axis)
	}
	pl := &Placement{plan: p, axis: axis}
	for path := range at {
		if _, ok := p.Leaf(path); !ok {
			return nil, fmt.Errorf("kron: place: leaf %q: not in the plan", path)
		}
	}
	places := axis
	for _, m := range p.Leaves {
		place, ok := at[m.Path]
		if !ok || place < 0 {
			return nil, fmt.Errorf("kron: place: leaf %q: found no place of 0 or more", m.Path)
		}
		pl.at = append(pl.at, place)
		places = max(places, place+1)
	}
	run := 0
	if axis > 0 {
		run = (p.dense + axis - 1) / axis
	}
	for place := range places {
		here := []string{}
		for i, m := range p.Leaves {
			if pl.at[i] == place {
				here = append(here, m.Path)
			}
		}
		part, err := p.Part(here)
		if err == nil && axis > 0 {
			count := run
			if place >= axis {
				count = 0
			}
			part, err = p.Run(here, place*run, count)
		}
		if err != nil {
			return nil, err
		}
		pl.Parts = append(pl.Parts, part)
	}
	return pl, nil
}

// Padding is the number of places in the divided stack that hold no block.
func (pl *Placement) Padding() int {
	padding := 0
	for _, part := range pl.Parts {
		padding += part.Padding
	}
	return padding
}

// Placed is a tensor of an optimizer's state and where it lies.
type Placed struct {
	Name  string
	Shape []int // of what lies there
	Place int
	// First is where it begins on the first axis of a tensor that is divided over places; with Of, the length of that axis. Of is 0 for a
	// tensor that lies in one place.
	First, Of int
}

// Tensors lists all state, place by place: slots shaped like leaves (like "mu"), the dense stack, factors of other leaves.
func (pl *Placement) Tensors(slots ...string) []Placed {
	var out []Placed
	for place, part := range pl.Parts {
		for _, slot := range slots {
			for i, m := range pl.plan.Leaves {
				if pl.at[i] == place {
					out = append(out, Placed{Name: slot + "/" + m.Path, Shape: m.Shape, Place: place})
				}
			}
		}
		for _, s := range pl.plan.tensors(part) {
			placed := Placed{Name: s.prefix + s.slot, Shape: s.shape, Place: place}
			if s.own < 0 && pl.axis > 0 {
				placed.First, placed.Of = place*s.shape[0], pl.axis*s.shape[0]
			}
			out = append(out, placed)
		}
	}
	return out
}

// tensorSpec is a tensor of a part's state.
type tensorSpec struct {
	prefix, slot string
	shape        []int
	own          int // which of Part.Own it belongs to, -1 for the dense stack
}

// tensors lists the state of a part as it is saved.
func (p *Plan) tensors(part Part) []tensorSpec {
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
	if n := len(part.Dense) + part.Padding; n > 0 {
		add("dense/", -1, n, []int{part.Rows, part.Rows}, []int{part.Cols, part.Cols})
	}
	for own, i := range part.Own {
		m := p.Leaves[i]
		rows, cols := largestOf(p.BlocksOf(m))
		left, right := []int{rows, rows}, []int{cols, cols}
		switch m.Kind {
		case Vector:
			left, right = []int{cols}, nil
		case DiagonalBoth:
			left, right = []int{rows}, []int{cols}
		case DiagonalLeft:
			left = []int{rows}
		case DiagonalRight:
			right = []int{cols}
		}
		add("leaf/"+m.Path+"/", own, m.Blocks, left, right)
	}
	return out
}
