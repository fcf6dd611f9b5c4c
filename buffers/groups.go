package buffers

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/gpu"
)

// NewGroupedLayout is NewLayout with the leaves of each group in slabs of their own, group after group, so that a tree can be taken apart by groups
// without a copy. A leaf has the parts that it has in any layout. A group may be empty.
func NewGroupedLayout(groups [][]Spec, lim gpu.Limits) (*Layout, error) {
	var layouts []*Layout
	for _, specs := range groups {
		group, err := NewLayout(specs, lim)
		if err != nil {
			return nil, err
		}
		layouts = append(layouts, group)
	}
	return grouped(layouts)
}

// grouped puts layouts one after the other.
func grouped(groups []*Layout) (*Layout, error) {
	l := &Layout{index: map[string]int{}}
	for _, group := range groups {
		for _, leaf := range group.leaves {
			leaf.Parts = slices.Clone(leaf.Parts)
			for i := range leaf.Parts {
				leaf.Parts[i].Slab += len(l.slabs)
			}
			l.leaves = append(l.leaves, leaf)
		}
		l.slabs, l.elements = append(l.slabs, group.slabs...), l.elements+group.elements
		l.groups = append(l.groups, group)
	}
	slices.SortFunc(l.leaves, func(a, b Leaf) int { return cmp.Compare(a.Path, b.Path) })
	for i := range l.leaves {
		leaf := &l.leaves[i]
		if _, twice := l.index[leaf.Path]; twice {
			return nil, fmt.Errorf("buffers: layout: leaf %q: found it in two groups, wanted it in one", leaf.Path)
		}
		leaf.Index, l.index[leaf.Path] = i, i
	}
	return l, nil
}

// Groups is how many groups the slabs are in: 1, except for NewGroupedLayout.
func (l *Layout) Groups() int { return max(1, len(l.groups)) }

// Group is the layout of the leaves of a group, whose slabs are GroupSlabs.
func (l *Layout) Group(group int) *Layout {
	if len(l.groups) == 0 {
		return l
	}
	return l.groups[group]
}

// GroupSlabs are the slabs of a group: first to before end.
func (l *Layout) GroupSlabs(group int) (first, end int) {
	for g := range group {
		first += len(l.Group(g).slabs)
	}
	return first, first + len(l.Group(group).slabs)
}

// Group is the leaves of a group as a tree. It has the slabs of t, and is valid as long as t is, which alone is to be released.
func (t *Tree) Group(group int) *Tree {
	first, end := t.layout.GroupSlabs(group)
	return &Tree{device: t.device, label: t.label, layout: t.layout.Group(group), dtype: t.dtype, slabs: t.slabs[first:end], kept: t.kept}
}
