package kron

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
)

// SOAPState is SOAP at work on a device. It is not safe for concurrent use. Bytes a parameter of a full block with both sides: nu 4, C and Q 8 each.
type SOAPState struct {
	*gpu.Set
	config SOAP
	leaves []soapPlaced
	groups []*soapGroup
	update *gpu.Buffer // the uniform of an update
	never  *gpu.Buffer // a flag that is never set

	// Scratch, as large as the largest group wants.
	block, turned, half  *gpu.Buffer // stacks of blocks
	gram, moved          *gpu.Buffer // stacks of sides
	slices               *gpu.Buffer // Gram matrices of slices of long blocks
	coefficients, keeper *gpu.Buffer // by side: two f32, a u32
	turns                *gpu.Buffer // by row of a side: of a reflection
}

// soapPlaced is a leaf with where its blocks are.
type soapPlaced struct {
	matrix Matrix
	blocks []Block
	at     []soapAt
}

type soapAt struct {
	group *soapGroup
	index int
}

// soapGroup is blocks of one size whose sides are turned alike, one after the other.
type soapGroup struct {
	height, width int
	slice         int // rows whose Gram matrices of columns are made on their own
	spots         []spot
	carrier       *transport
	nu            *gpu.Buffer
	left, right   *soapSides // nil: not turned
}

// soapSides are the covariances and bases of one side of a group's blocks.
type soapSides struct {
	size  int
	c, q  *gpu.Buffer
	table *gpu.Buffer // how much of each is in use
}

// longSlice is the rows of a slice of a block that is longer.
const longSlice = 512

// NewSOAPState makes the state before the first update. layout is the updates' layout; leaves that only one of the two has are left alone.
// Errors: a leaf whose shape is not the plan's, a block larger than a binding, no memory.
func NewSOAPState(dev *gpu.Device, plan *Plan, c SOAP, layout *buffers.Layout) (*SOAPState, error) {
	s := &SOAPState{Set: dev.NewSet("gputrain.kron.soap"), config: c}
	if err := s.open(plan, layout); err != nil {
		s.Release()
		return nil, fmt.Errorf("kron: soap: %w", err)
	}
	return s, nil
}

func (s *SOAPState) open(plan *Plan, layout *buffers.Layout) error {
	type key struct {
		kind          Kind
		height, width int
	}
	type member struct {
		key
		leaf, block int
		of          Block
	}
	var members []member
	for _, leaf := range layout.Leaves() {
		m, ok := plan.Leaf(leaf.Path)
		if !ok || m.Kind == Empty {
			continue
		}
		if !slices.Equal(m.Shape, leaf.Shape) {
			return fmt.Errorf("leaf %q: shape %v, wanted the plan's %v", leaf.Path, leaf.Shape, m.Shape)
		}
		blocks := plan.BlocksOf(m)
		left, right := m.Kind.turns()
		for i, b := range blocks {
			k := key{m.Kind, s.side(b.Rows, left), s.side(b.Cols, right)}
			members = append(members, member{k, len(s.leaves), i, b})
		}
		s.leaves = append(s.leaves, soapPlaced{m, blocks, make([]soapAt, len(blocks))})
	}
	slices.SortStableFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.height, b.height), cmp.Compare(a.width, b.width))
	})
	share := 0
	for _, m := range members {
		share += m.height * m.width
	}
	room := int(min(s.Device().Limits().BindingBytes, s.Device().Limits().BufferBytes) / 4)
	most := min(max(chunkElements, share/mostChunks), room)
	var last member
	for _, m := range members {
		left, right := m.kind.turns()
		g := s.lastGroup()
		each := soapElements(m.height, m.width, left, right)
		if each > room {
			return fmt.Errorf("leaf %q: a block of %d by %d takes %d bytes, a binding has %d", s.leaves[m.leaf].matrix.Path, m.of.Rows, m.of.Cols, 4*each, 4*room)
		}
		if g == nil || last.key != m.key || (len(g.spots)+1)*each > most {
			g = &soapGroup{height: m.height, width: m.width, slice: min(longSlice, m.height)}
			if left {
				g.left = &soapSides{size: m.height}
			}
			if right {
				g.right = &soapSides{size: m.width}
			}
			s.groups = append(s.groups, g)
		}
		s.leaves[m.leaf].at[m.block] = soapAt{g, len(g.spots)}
		g.spots = append(g.spots, spot{block: m.of, height: g.height, width: g.width, at: len(g.spots) * g.height * g.width})
		last = m
	}
	s.allocate(plan, layout)
	return s.Err()
}

// side is what a side is stored with. A long one that is not turned is whole slices.
func (s *SOAPState) side(n int, turned bool) int {
	switch {
	case turned:
		return sizeClass(n, s.config.BlockSize)
	case n > longSlice:
		return roundUp(n, longSlice)
	}
	return roundUp(n, 4)
}

// soapElements is the largest of a block's arrays.
func soapElements(height, width int, left, right bool) int {
	n := height * width
	if left {
		n = max(n, height*height)
	}
	if right {
		n = max(n, width*width)
	}
	return n
}

func (s *SOAPState) lastGroup() *soapGroup {
	if len(s.groups) == 0 {
		return nil
	}
	return s.groups[len(s.groups)-1]
}

func (s *SOAPState) allocate(plan *Plan, layout *buffers.Layout) {
	words := func(name string, n int) *gpu.Buffer { return s.Zeros(name, 4*uint64(n)) }
	s.update, s.never = s.Uniform("update", 16), s.Zeros("never", 16)
	block, side, rows, parts, count := 0, 0, 0, 0, 0
	for _, g := range s.groups {
		n := len(g.spots)
		var err error
		if g.carrier, err = newTransport(s.Set, layout, plan, g.spots); err != nil {
			return // the set has it
		}
		g.nu = words("nu", n*g.height*g.width)
		block, count = max(block, n*g.height*g.width), max(count, n)
		for _, t := range []*soapSides{g.left, g.right} {
			if t == nil {
				continue
			}
			used := make([]uint32, n)
			for i, spot := range g.spots {
				used[i] = uint32(spot.block.Rows)
				if t == g.right {
					used[i] = uint32(spot.block.Cols)
				}
			}
			t.table, t.c, t.q = s.Filled("sides", used), words("c", n*t.size*t.size), s.identities(t.size, used)
			side, rows = max(side, n*t.size*t.size), max(rows, n*t.size)
		}
		if g.right != nil && g.height > g.slice {
			parts = max(parts, n*g.height/g.slice*g.width*g.width)
		}
	}
	s.block, s.turned, s.half = words("block", block), words("turned", block), words("half", block)
	s.gram, s.moved, s.slices = words("gram", side), words("moved", side), words("slices", max(parts, 4))
	s.turns = words("turns", rows)
	s.coefficients, s.keeper = words("coefficients", 2*count), words("keep", count)
}

// identities are matrices with ones on the diagonal as far as they are used.
func (s *SOAPState) identities(size int, used []uint32) *gpu.Buffer {
	if s.Device().Dry() { // which drops what is written
		return s.Zeros("q", 4*uint64(len(used)*size*size))
	}
	raw := make([]byte, 4*len(used)*size*size)
	for i, n := range used {
		for k := range int(n) {
			array.Encode(buffers.F32, raw[4*(i*size*size+k*(size+1)):], []float32{1})
		}
	}
	return s.Filled("q", raw)
}

// Prepare begins update n, counted from 1: it writes what changes from update to update, ordered before the next submit.
func (s *SOAPState) Prepare(n int64) error {
	if n < 1 || n > math.MaxUint32 {
		return fmt.Errorf("kron: soap: update %d: they count from 1 to %d", n, uint32(math.MaxUint32))
	}
	return s.Device().Write(s.update.All(), gpu.Bytes([4]float32{float32(s.config.correction(n))}))
}

// Tensors is the state as it is saved, by leaf: nu of the leaf's shape, in the coordinates of its blocks; Cl, Ql, Cr and Qr of the sides that are
// turned, [side, side] of a leaf that is one block and [blocks, side, side] of others, with zeros up to the largest of their sides.
func (s *SOAPState) Tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, l := range s.leaves {
		m := l.matrix
		nu := func(g *soapGroup) *gpu.Buffer { return g.nu }
		out = append(out, s.tensor("nu/"+m.Path, m.Shape, l, nu, func(g *soapGroup, i int, f func(tensor, buffer, count int)) {
			b := twinBlock{leaf: m, block: l.blocks[i]}
			for r := range b.block.Rows {
				f(b.at(r), r*g.width, b.block.Cols)
			}
		}))
		left, right := m.Kind.turns()
		for _, t := range []struct {
			there bool
			name  string
			right bool
			of    func(g *soapGroup) *gpu.Buffer
		}{
			{left, "Cl/", false, func(g *soapGroup) *gpu.Buffer { return g.left.c }},
			{left, "Ql/", false, func(g *soapGroup) *gpu.Buffer { return g.left.q }},
			{right, "Cr/", true, func(g *soapGroup) *gpu.Buffer { return g.right.c }},
			{right, "Qr/", true, func(g *soapGroup) *gpu.Buffer { return g.right.q }},
		} {
			if !t.there {
				continue
			}
			most := soapSize(l.blocks, t.right)
			out = append(out, s.tensor(t.name+m.Path, soapShape(len(l.blocks), most), l, t.of, func(g *soapGroup, i int, f func(tensor, buffer, count int)) {
				n, size := l.blocks[i].Rows, g.height
				if t.right {
					n, size = l.blocks[i].Cols, g.width
				}
				for r := range n {
					f((i*most+r)*most, r*size, n)
				}
			}))
		}
	}
	return out
}

// tensor is an array of a leaf whose blocks lie in the groups' buffers; runs tells for a block what of it is where: in the tensor, in the block's matrix,
// and how many numbers.
func (s *SOAPState) tensor(name string, shape []int, l soapPlaced, of func(g *soapGroup) *gpu.Buffer, runs func(g *soapGroup, i int, f func(tensor, buffer, count int))) buffers.Tensor {
	// Blocks that lie one after the other in one buffer are read and written together.
	return placedTensor(s.Device(), name, buffers.F32, shape, func(do spanFunc) error {
		for first := 0; first < len(l.at); {
			g, end := l.at[first].group, first+1
			for end < len(l.at) && l.at[end].group == g && l.at[end].index == l.at[end-1].index+1 {
				end++
			}
			b := of(g)
			stride := int(b.Bytes()) / len(g.spots)
			var list []placedRun
			for i := first; i < end; i++ {
				runs(g, i, func(tensor, buffer, count int) {
					list = append(list, placedRun{at: 4 * tensor, in: (i-first)*stride + 4*buffer, bytes: 4 * count})
				})
			}
			if err := do(b.Range(uint64(l.at[first].index*stride), uint64((end-first)*stride)), list); err != nil {
				return err
			}
			first = end
		}
		return nil
	})
}
