package buffers

import (
	"cmp"
	"fmt"
	"slices"
)

// Coded is the layout, in bytes, of a U8 tree that keeps a number for each element of another layout, slab by slab: a leaf of many elements as a
// byte each, with the largest magnitude of every block of them in f32, any other leaf in f32. A slab has the bytes first, each part at a whole block, then
// the maxima of all blocks in order, then the leaves in f32.
type Coded struct {
	*Layout
	Maxima, Plain []uint32 // where in each slab the maxima begin, and the leaves in f32: in words
}

// MaximaOf is the path of the maxima of a leaf.
func MaximaOf(path string) string { return path + ".absmax" }

// NewCodedLayout codes the leaves of at least so many elements. Blocks are counted along a leaf, wherever it lies: a leaf whose parts cut one is an error.
func NewCodedLayout(of *Layout, block, least int) (*Coded, error) {
	out := &Coded{Layout: &Layout{index: map[string]int{}, slabs: make([]int, len(of.slabs))}}
	put := func(leaf Leaf, path string, bytes func(elements int) int, at func(i int, p Part) int) {
		own := Leaf{Path: path, Shape: []int{0}}
		for i, p := range leaf.Parts {
			own.Parts = append(own.Parts, Part{Slab: p.Slab, Offset: at(i, p), Count: bytes(p.Count), Row: own.Shape[0], Rows: bytes(p.Count)})
			own.Shape[0] += bytes(p.Count)
		}
		out.leaves, out.elements = append(out.leaves, own), out.elements+own.Shape[0]
	}
	// next is room for a part behind what its slab has.
	next := func(slab, bytes, align int) int {
		at := out.slabs[slab]
		out.slabs[slab] += (bytes + align - 1) / align * align
		return at
	}
	var coded, plain []Leaf
	for _, leaf := range of.leaves {
		if leaf.Elements() < least {
			plain = append(plain, leaf)
			continue
		}
		for _, p := range leaf.Parts {
			if p.Row*leaf.rowElements()%block != 0 {
				return nil, fmt.Errorf("buffers: coded layout: leaf %q: shape %v in parts that cut runs of %d elements, wanted it in f32", leaf.Path, leaf.Shape, block)
			}
		}
		put(leaf, leaf.Path, func(n int) int { return n }, func(_ int, p Part) int { return next(p.Slab, p.Count, block) })
		coded = append(coded, leaf)
	}
	codes := slices.Clone(out.leaves)
	for slab, n := range out.slabs {
		out.Maxima = append(out.Maxima, uint32(n/4))
		next(slab, 4*n/block, 16)
		out.Plain = append(out.Plain, uint32(out.slabs[slab]/4))
	}
	for k, leaf := range coded {
		put(leaf, MaximaOf(leaf.Path), func(n int) int { return (n + block - 1) / block * 4 }, func(i int, p Part) int {
			return 4*int(out.Maxima[p.Slab]) + codes[k].Parts[i].Offset/block*4
		})
	}
	for _, leaf := range plain {
		put(leaf, leaf.Path, func(n int) int { return 4 * n }, func(_ int, p Part) int { return next(p.Slab, 4*p.Count, 16) })
	}
	for slab := range out.slabs {
		out.slabs[slab] = max(roundUp(out.slabs[slab]), BlockElements)
	}
	slices.SortFunc(out.leaves, func(a, b Leaf) int { return cmp.Compare(a.Path, b.Path) })
	for i := range out.leaves {
		path := out.leaves[i].Path
		if _, twice := out.index[path]; twice {
			return nil, fmt.Errorf("buffers: coded layout: leaf %q: found one of that name and the maxima of another, wanted one", path)
		}
		out.leaves[i].Index, out.index[path] = i, i
	}
	return out, nil
}

// Has tells whether a leaf is coded.
func (c *Coded) Has(path string) bool {
	_, has := c.index[MaximaOf(path)]
	return has
}

// Tensors are a leaf of a tree with this layout as it is saved, under a name: numbers in f32, or codes of the leaf's shape and the maxima of its blocks.
func (c *Coded) Tensors(t *Tree, name string, leaf Leaf) []Tensor {
	tensor := func(path, name string, d DType, shape []int) Tensor {
		own, _ := c.Leaf(path)
		out := t.Tensor(name, own)
		out.DType, out.Shape = d, shape
		return out
	}
	if !c.Has(leaf.Path) {
		return []Tensor{tensor(leaf.Path, name, F32, leaf.Shape)}
	}
	maxima, _ := c.Leaf(MaximaOf(leaf.Path))
	return []Tensor{tensor(leaf.Path, name, U8, leaf.Shape), tensor(MaximaOf(leaf.Path), MaximaOf(name), F32, []int{maxima.Shape[0] / 4})}
}

// Word is the word of a slab that has an element of a leaf's part, the first of four.
func (c *Coded) Word(path string, part, element int) uint32 {
	leaf, _ := c.Leaf(path)
	if c.Has(path) {
		return uint32(leaf.Parts[part].Offset+element) / 4
	}
	return uint32(leaf.Parts[part].Offset/4 + element)
}
