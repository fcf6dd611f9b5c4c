package optim

import (
	"math"

	"gputrain/buffers"
)

// table is the table that the kernels of a plan read about one slab: stride words a block of elements (leaf << 8 |
// elements in use; where the plan rounds stochastically or has rows also the key of the path and the index in the leaf of the
// block's first vec4; for each route the block in the trees of the route's own layout), then, from tableValues on, the
// values of each leaf as f32 bits. Where there are trees in eight bits, a block's last word is the word where they have it.
func (p *plan) table(layout *buffers.Layout, slab int, r *resolved, subsets []*buffers.Layout, coded *buffers.Coded) []uint32 {
	stride, values := p.stride(), p.tableValues(layout, slab)
	words := make([]uint32, values, int(values)+len(r.values))
	for _, leaf := range layout.Leaves() {
		rows := 1
		if len(leaf.Shape) > 0 {
			rows = max(leaf.Shape[0], 1)
		}
		for at, part := range leaf.Parts {
			if part.Slab != slab {
				continue
			}
			first := uint64(part.Row) * uint64(leaf.Elements()/rows) / 4
			for b, left := 0, part.Count; left > 0; b, left = b+1, left-buffers.BlockElements {
				entry := words[(part.Offset/buffers.BlockElements+b)*stride:]
				entry[0] = uint32(leaf.Index)<<8 | uint32(min(left, buffers.BlockElements))
				if p.located() {
					entry[1] = pathKey(leaf.Path)
					entry[2] = uint32(first) + uint32(b*buffers.BlockElements/4)
				}
				for route, subset := range subsets {
					if own, ok := subset.Leaf(leaf.Path); ok {
						entry[p.routeWord(route)] = uint32(own.Parts[at].Offset/buffers.BlockElements + b)
					}
				}
				if coded != nil {
					entry[p.codesWord()] = coded.Word(leaf.Path, at, b*buffers.BlockElements)
				}
			}
		}
	}
	for _, v := range r.values {
		words = append(words, math.Float32bits(v))
	}
	return words
}

// tableValues is where the values of the leaves begin in the table of a slab.
func (p *plan) tableValues(layout *buffers.Layout, slab int) uint32 {
	return uint32(layout.Slabs()[slab] / buffers.BlockElements * p.stride())
}

// codeTable is the blocks of codes of a slab, in which leaves in f32 are cut too: twice the first block of elements of each, and one more if there is another.
func codeTable(layout *buffers.Layout, slab int) (words []uint32) {
	for _, leaf := range layout.Leaves() {
		for _, part := range leaf.Parts {
			for at := 0; part.Slab == slab && at < part.Count; at += codeBlock {
				word := uint32((part.Offset+at)/buffers.BlockElements) << 1
				if part.Count-at > buffers.BlockElements {
					word++
				}
				words = append(words, word)
			}
		}
	}
	return words
}
