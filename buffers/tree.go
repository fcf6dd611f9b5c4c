package buffers

import (
	"fmt"
	"slices"

	"gputrain/gpu"
)

// Tree is a set of named arrays of one dtype on a device, in a few slabs: one gpu buffer each. What lies between the leaves is
// zero and stays zero under every operation of this package, so that sums may run over whole slabs. A Tree is not safe for concurrent use.
type Tree struct {
	device *gpu.Device
	label  string
	layout *Layout
	dtype  DType
	slabs  []*gpu.Buffer
	kept   map[string]keptTable // by the host, once they are written

	extents tables // elements in use of each block, for slabs with padding
}

// NewTree makes a zero-filled tree. Errors: a slab larger than a binding of the device, no memory.
func NewTree(dev *gpu.Device, label string, layout *Layout, dtype DType) (*Tree, error) {
	if !dtype.Valid() {
		return nil, fmt.Errorf("buffers: tree %q: dtype %v is unknown", label, dtype)
	}
	t := &Tree{device: dev, label: label, layout: layout, dtype: dtype}
	for i := range layout.Slabs() {
		b, err := t.newSlab(i, layout.slabBytes(dtype, i))
		if err != nil {
			t.Release()
			return nil, fmt.Errorf("buffers: tree %q: %d bytes in %d slabs of %v: %w",
				label, layout.Bytes(dtype), len(layout.Slabs()), dtype, err)
		}
		t.slabs = append(t.slabs, b)
	}
	return t, nil
}

func (t *Tree) newSlab(i int, bytes uint64) (*gpu.Buffer, error) {
	label := fmt.Sprintf("gputrain.buffers.%s.%d", t.label, i)
	if limit := t.device.Limits().BindingBytes; bytes > limit {
		return nil, &gpu.LimitError{Subject: fmt.Sprintf("slab %q", label), Bytes: bytes, Limit: limit, Name: "BindingBytes"}
	}
	return t.device.NewBuffer(label, bytes)
}

// Given leaves out the trees that are nil.
func Given(trees ...*Tree) []*Tree {
	return slices.DeleteFunc(slices.Clone(trees), func(t *Tree) bool { return t == nil })
}

// Layout says where the leaves are.
func (t *Tree) Layout() *Layout { return t.layout }

// DType is the storage type of every leaf; in a packed tree, of the matrices of layers.
func (t *Tree) DType() DType { return t.dtype }

// Device is where the tree lives.
func (t *Tree) Device() *gpu.Device { return t.device }

// Label is the label given to NewTree.
func (t *Tree) Label() string { return t.label }

// Bytes is the device memory of the tree, padding included.
func (t *Tree) Bytes() uint64 { return t.layout.Bytes(t.dtype) }

// Slab is the whole of slab i.
func (t *Tree) Slab(i int) gpu.Range { return t.slabs[i].All() }

// Part is the range of a part, which can be bound on its own. For BF16 it is rounded up to whole words: the upper half
// of the last one is padding when the count is odd, and a kernel that writes it must write zero. Of a packed type it is
// that of the codes.
func (t *Tree) Part(p Part) gpu.Range {
	d := t.layout.SlabType(t.dtype, p.Slab)
	return t.slabs[p.Slab].Range(d.Bytes(uint64(p.Offset)), wordBytes(d, p.Count))
}

// wordBytes is the size of n elements, rounded up to the four bytes that transfers and bindings go by.
func wordBytes(d DType, n int) uint64 { return (d.Bytes(uint64(n)) + 3) / 4 * 4 }

// Release gives the memory back. Every later use of the tree is an error that says so.
func (t *Tree) Release() {
	if t == nil {
		return
	}
	for _, b := range t.slabs {
		b.Release() // and stays here, to be refused
	}
	t.extents.release()
	for _, table := range t.kept {
		table.release()
	}
	t.kept = nil
}

// same refuses a tree that cannot go elementwise with t.
func (t *Tree) same(operation string, other *Tree) error {
	if t.device != other.device {
		return fmt.Errorf("buffers: %s: tree %q: on another device than %q", operation, other.label, t.label)
	}
	if d := t.layout.difference(other.layout); d != "" {
		return fmt.Errorf("buffers: %s: tree %q does not match %q: %s", operation, other.label, t.label, d)
	}
	return nil
}
