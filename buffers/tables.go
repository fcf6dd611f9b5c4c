package buffers

import (
	"fmt"

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
