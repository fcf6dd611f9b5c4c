package buffers

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gputrain/buffers/array"
	"gputrain/internal/caught"
)

// fillElements is how much of a slab is made at a time, and fillers how many do it at most: together they bound what WriteAll takes of the host.
const (
	fillElements = 1 << 20
	fillers      = 8
)

// WriteAll stores every leaf of an F32, BF16 or packed tree, in any order. Arrays that are yet to be read are read, a
// part at a time, on all processors: it takes at most 64 MiB of the host's memory, however large the tree, and where
// maxima are nested those of the leaves that are under way. Nothing is written unless the arrays are exactly the tree's
// leaves. Where one cannot be read, what the tree then has is not defined. Of tables that the host keeps nothing is written: they are read where they are
// while the tree is not released.
func (t *Tree) WriteAll(hosts []Host) error {
	byLeaf, err := t.match(hosts)
	if err != nil || t.device.Dry() {
		return err
	}
	for i, leaf := range t.layout.leaves {
		if leaf.Table {
			t.keep(byLeaf[i])
		}
	}
	work := t.pieces(byLeaf)
	errs := make([]error, min(len(work), fillers, runtime.GOMAXPROCS(0)))
	size := 0
	for _, p := range work {
		size = max(size, p.to-p.from)
	}
	at := make([]int, len(errs)) // which piece each has been at
	var next atomic.Int64
	f := &filling{whole: map[int]*wholeMaxima{}}
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			errs[i] = caught.Do(func() error {
				floats, raw := make([]float32, size), make([]byte, 4*size)
				for {
					n := int(next.Add(1)) - 1
					if n >= len(work) {
						return nil
					}
					at[i] = n
					if err := t.fill(work[n], floats, raw, f); err != nil {
						next.Store(int64(len(work)))
						return err
					}
				}
			})
		})
	}
	all.Wait()
	// Pieces are taken in their order, so that the first one that fails is the same each time.
	first := -1
	for i, err := range errs {
		if err != nil && (first < 0 || at[i] < at[first]) {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	return errs[first]
}

// filling is what those who fill a tree share.
type filling struct {
	mu    sync.Mutex           // to write to the device
	whole map[int]*wholeMaxima // of the leaves under way whose maxima are nested, by their index
}

// match finds the array of each leaf.
func (t *Tree) match(hosts []Host) ([]Host, error) {
	byLeaf := make([]Host, len(t.layout.leaves))
	given := make([]bool, len(byLeaf))
	for _, h := range hosts {
		leaf, err := t.floatLeaf("write all", h.Path)
		if err != nil {
			return nil, err
		}
		switch {
		case given[leaf.Index]:
			return nil, fmt.Errorf("buffers: write all: tree %q: leaf %q: given twice", t.label, h.Path)
		case !slices.Equal(h.Shape, leaf.Shape):
			return nil, fmt.Errorf("buffers: write all: tree %q: leaf %q: shape %v, want %v", t.label, h.Path, h.Shape, leaf.Shape)
		case len(h.Data) != leaf.Elements() && (h.Data != nil || h.Read == nil):
			return nil, fmt.Errorf("buffers: write all: tree %q: leaf %q: %d elements, want %d of shape %v",
				t.label, h.Path, len(h.Data), leaf.Elements(), leaf.Shape)
		}
		byLeaf[leaf.Index], given[leaf.Index] = h, true
	}
	if i := slices.Index(given, false); i >= 0 {
		return nil, fmt.Errorf("buffers: write all: tree %q: leaf %q is missing", t.label, t.layout.leaves[i].Path)
	}
	return byLeaf, nil
}

// piece is elements [from, to) of a slab, and the parts of leaves that have some of them.
type piece struct {
	slab, from, to int
	parts          []hostPart
}

// hostPart is a part of a leaf, and from which element of which array it is.
type hostPart struct {
	Part
	leaf  Leaf
	host  Host
	first int
}

// pieces cuts the slabs.
func (t *Tree) pieces(byLeaf []Host) (out []piece) {
	bySlab := make([][]hostPart, len(t.slabs))
	for _, leaf := range t.layout.leaves {
		for _, p := range leaf.Parts {
			bySlab[p.Slab] = append(bySlab[p.Slab], hostPart{p, leaf, byLeaf[leaf.Index], p.Row * leaf.rowElements()})
		}
	}
	for slab, parts := range bySlab {
		slices.SortFunc(parts, func(a, b hostPart) int { return cmp.Compare(a.Offset, b.Offset) })
		for from := 0; from < t.layout.slabs[slab]; from += fillElements {
			p := piece{slab: slab, from: from, to: min(from+fillElements, t.layout.slabs[slab])}
			for len(parts) > 0 && parts[0].Offset+parts[0].Count <= from {
				parts = parts[1:]
			}
			for _, part := range parts {
				if part.Offset >= p.to {
					break
				}
				p.parts = append(p.parts, part)
			}
			out = append(out, p)
		}
	}
	return out
}

// fill reads a piece, encodes it and writes it; what lies between the leaves is zero.
func (t *Tree) fill(p piece, floats []float32, raw []byte, f *filling) error {
	floats = floats[:p.to-p.from]
	clear(floats)
	for _, part := range p.parts {
		if t.packs(part) {
			continue
		}
		from, to := max(p.from, part.Offset), min(p.to, part.Offset+part.Count)
		if err := part.host.Copy(floats[from-p.from:to-p.from], part.first+from-part.Offset); err != nil {
			return fmt.Errorf("buffers: write all: tree %q: leaf %q: %w", t.label, part.host.Path, err)
		}
	}
	d := t.layout.SlabType(t.dtype, p.slab)
	if d.Packed() {
		return t.fillPacked(p, floats, f)
	}
	raw = raw[:d.Bytes(uint64(len(floats)))]
	array.Encode(d, raw, floats)
	f.mu.Lock()
	defer f.mu.Unlock()
	return t.writeSlab(p.slab, d.Bytes(uint64(p.from)), raw)
}
