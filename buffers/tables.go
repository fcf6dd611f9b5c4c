package buffers

import (
	"fmt"
	"hash/fnv"

	"gputrain/gpu"
)

// tables are small buffers that tell kernels about the blocks of each slab; made when first recorded, released with the tree.
type tables struct {
	made    bool
	buffers []*gpu.Buffer // nil where the slab needs none
}

func (ts *tables) release() {
	for _, b := range ts.buffers {
		b.Release()
	}
	*ts = tables{}
}

// table gives the tables of the tree, made by contents; nil contents make none.
func (t *Tree) table(ts *tables, name string, contents func(slab int) []byte) ([]*gpu.Buffer, error) {
	if ts.made {
		return ts.buffers, nil
	}
	for s := range t.slabs {
		data := contents(s)
		if data == nil {
			ts.buffers = append(ts.buffers, nil)
			continue
		}
		data = append(data, make([]byte, -len(data)&3)...)
		b, err := t.device.NewBuffer(fmt.Sprintf("gputrain.buffers.%s.%d.%s", t.label, s, name), uint64(len(data)))
		if err == nil {
			ts.buffers = append(ts.buffers, b)
			err = t.device.Write(b.All(), data)
		}
		if err != nil {
			ts.release()
			return nil, fmt.Errorf("buffers: tree %q: slab %d: %s: %w", t.label, s, name, err)
		}
	}
	ts.made = true
	return ts.buffers, nil
}

// extentTables has a byte for each block, how many of its elements are in use, for the slabs that have padding.
func (t *Tree) extentTables() ([]*gpu.Buffer, error) {
	return t.table(&t.extents, "extents", t.layout.blockExtents)
}

// blockExtents is nil for a slab without padding.
func (l *Layout) blockExtents(slab int) []byte {
	extents := make([]byte, l.slabs[slab]/BlockElements)
	padded := false
	for _, leaf := range l.leaves {
		for _, p := range leaf.Parts {
			if p.Slab != slab {
				continue
			}
			for at := 0; at < p.Count; at += BlockElements {
				extents[(p.Offset+at)/BlockElements] = byte(min(BlockElements, p.Count-at))
			}
			padded = padded || p.Count%BlockElements != 0
		}
	}
	if !padded {
		return nil
	}
	return extents
}

// roundingTables has two words for each block: what the stream of random bits of its leaf is told by, and the index in the
// leaf of the block's first four elements. Both come from the leaf alone, so that it is rounded alike in every tree and slab.
func (t *Tree) roundingTables() ([]*gpu.Buffer, error) {
	return t.table(&t.rounding, "rounding", func(slab int) []byte {
		return gpu.Bytes(t.layout.blockCounters(slab))
	})
}

func (l *Layout) blockCounters(slab int) [][2]uint32 {
	counters := make([][2]uint32, l.slabs[slab]/BlockElements)
	for _, leaf := range l.leaves {
		for _, p := range leaf.Parts {
			if p.Slab != slab {
				continue
			}
			stream, quad := roundingCounter(leaf, p)
			for b := range roundUp(p.Count) / BlockElements {
				counters[p.Offset/BlockElements+b] = [2]uint32{stream, quad + uint32(b*BlockElements/4)}
			}
		}
	}
	return counters
}

// roundingCounter is the counter of a part's first four elements. A part that begins within four elements of its leaf (fewer than
// four rows of odd length fit a slab) has a stream of its own.
func roundingCounter(leaf Leaf, p Part) (stream, quad uint32) {
	h := fnv.New32a()
	h.Write([]byte(leaf.Path))
	first := p.Row * leaf.rowElements()
	return h.Sum32() + uint32(first%4)*0x9e3779b9, uint32(first / 4)
}
