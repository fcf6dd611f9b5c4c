package buffers

import (
	"fmt"
	"runtime"

	"gputrain/buffers/array"
	"gputrain/internal/caught"
)

// A tree that is not trained leaves tables with the host (Leaf.Table), in the bytes that their files have: it takes the rows of a batch's tokens to the
// device, and no more.

// keptTable is a table that the host keeps, and what lets go of its file.
type keptTable struct {
	Host
	letGo func() error
}

func (k keptTable) release() {
	if k.letGo != nil {
		_ = k.letGo() // it was read alone
	}
}

// keep takes a table over as the host has it, rounded as the tree would.
func (t *Tree) keep(h Host) {
	t.kept[h.Path].release()
	if t.kept == nil {
		t.kept = map[string]keptTable{}
	}
	own := keptTable{Host: h}
	own.Table = true
	if h.Hold != nil {
		own.letGo = h.Hold()
	}
	d, read := TableType(t.dtype), h.Copy
	own.Data, own.Packed = nil, nil
	own.Read = func(dst []float32, first int) error {
		err := read(dst, first)
		if d != F32 && err == nil {
			array.Decode(d, dst, array.Encoded(d, dst))
		}
		return err
	}
	t.kept[h.Path] = own
}

// Share gives the tree the tables that others keep.
func (t *Tree) Share(from ...*Tree) {
	for _, leaf := range t.layout.leaves {
		for _, other := range from {
			if table, there := other.kept[leaf.Path]; leaf.Table && there {
				t.keep(table.Host)
			}
		}
	}
}

// TableType is the type that rows of a table come in to a device, of a tree of a type.
func TableType(d DType) DType {
	if d.Packed() {
		return BF16
	}
	return d
}

// ofHost is a leaf that the host keeps.
func (t *Tree) ofHost(operation string, leaf Leaf) (keptTable, error) {
	table, there := t.kept[leaf.Path]
	if !there {
		return table, fmt.Errorf("buffers: %s: tree %q: leaf %q: found it not yet written, or released, wanted the table that the host keeps", operation, t.label, leaf.Path)
	}
	return table, nil
}

// Gather gives rows of a table that the host keeps, one behind the other, in TableType.
func (t *Tree) Gather(path string, dst []byte, rows []int32) error {
	leaf, err := t.leaf("gather", path)
	if err != nil {
		return err
	}
	table, err := t.ofHost("gather", leaf)
	if err != nil {
		return err
	}
	const some = 64 // rows that one goroutine reads
	width, d := leaf.rowElements(), TableType(t.dtype)
	size := int(d.Bytes(uint64(width)))
	return caught.Each((len(rows)+some-1)/some, runtime.GOMAXPROCS(0), func(i int) error {
		row := make([]float32, width)
		for at := i * some; at < min((i+1)*some, len(rows)); at++ {
			if err := table.Read(row, int(rows[at])*width); err != nil {
				return fmt.Errorf("buffers: gather: tree %q: leaf %q: row %d: %w", t.label, path, rows[at], err)
			}
			array.Encode(d, dst[at*size:][:size], row)
		}
		return nil
	})
}
