package kron

import (
	"fmt"
	"math/bits"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// Follow records what gradients do: covariances take them, and nu, unless that is of the momentum. Updates hold the gradients and stay. If word
// 1 of flag (16 bytes of storage, or none) is not zero, all state keeps every bit.
func (s *SOAPState) Follow(rec *gpu.Recording, updates *buffers.Tree, flag gpu.Range) {
	c := s.config
	flag = s.flag(flag)
	for _, g := range s.groups {
		rec.Group("kron.gather")
		g.carrier.gather(rec, s.block.All(), updates)
		block := s.blocks(s.block, g)
		if !c.Momentum {
			rec.Group("kron.apply")
			s.mix(rec, flag, c.B2, true, s.turn(rec, g, block, false), g.nu)
		}
		rec.Group("kron.gram")
		if g.left != nil {
			gram := g.left.stack(s.gram, len(g.spots))
			Product{A: block, B: block, TransB: true, C: gram, Symmetric: true, Alpha: 1}.Record(rec, s.Device())
			s.mix(rec, flag, c.Decay, false, gram, g.left.c)
		}
		if g.right != nil {
			s.mix(rec, flag, c.Decay, false, s.columns(rec, g, block), g.right.c)
		}
	}
}

// Turn records the update: updates hold the corrected momentum and receive the direction. With refresh the bases are made anew, for the next one.
func (s *SOAPState) Turn(rec *gpu.Recording, updates *buffers.Tree, flag gpu.Range, refresh bool) {
	flag = s.flag(flag)
	for _, g := range s.groups {
		rec.Group("kron.gather")
		g.carrier.gather(rec, s.block.All(), updates)
		rec.Group("kron.apply")
		m := s.turn(rec, g, s.blocks(s.block, g), false)
		s.scale(rec, flag, g, m)
		m = s.turn(rec, g, m, true)
		rec.Group("kron.scatter")
		g.carrier.scatter(rec, updates, m.Range)
		if refresh {
			rec.Group("kron.move")
			for _, t := range []*soapSides{g.left, g.right} {
				if t != nil {
					s.refresh(rec, flag, t, len(g.spots))
				}
			}
		}
	}
}

func (s *SOAPState) flag(flag gpu.Range) gpu.Range {
	if flag.Bytes == 0 {
		flag = s.never.All()
	}
	return flag.Buffer.Range(flag.Offset, 16)
}

func (s *SOAPState) blocks(b *gpu.Buffer, g *soapGroup) Stack {
	n := len(g.spots)
	return Stack{Range: b.Range(0, 4*uint64(n*g.height*g.width)), Count: n, Rows: g.height, Cols: g.width, DType: buffers.F32}
}

func (t *soapSides) stack(b *gpu.Buffer, count int) Stack {
	return Stack{Range: b.Range(0, 4*uint64(count*t.size*t.size)), Count: count, Rows: t.size, Cols: t.size, DType: buffers.F32}
}

// turn makes Qlᵀ x Qr, or back Ql x Qrᵀ, and tells where it is: in scratch that is not x.
func (s *SOAPState) turn(rec *gpu.Recording, g *soapGroup, x Stack, back bool) Stack {
	n := len(g.spots)
	to := []*gpu.Buffer{s.half, s.turned}
	if x.Range.Buffer == s.half {
		to = []*gpu.Buffer{s.block, s.turned}
	} else if x.Range.Buffer == s.turned {
		to = []*gpu.Buffer{s.half, s.block}
	}
	if g.left != nil {
		out := s.blocks(to[0], g)
		Product{A: g.left.stack(g.left.q, n), TransA: !back, B: x, C: out, Alpha: 1}.Record(rec, s.Device())
		x, to = out, to[1:]
	}
	if g.right != nil {
		out := s.blocks(to[0], g)
		Product{A: x, B: g.right.stack(g.right.q, n), TransB: back, C: out, Alpha: 1}.Record(rec, s.Device())
		x = out
	}
	return x
}

// columns makes Gᵀ G; of long blocks it is put together of slices.
func (s *SOAPState) columns(rec *gpu.Recording, g *soapGroup, block Stack) Stack {
	gram := g.right.stack(s.gram, len(g.spots))
	many := g.height / g.slice
	part := gram
	if many > 1 {
		block.Count, block.Rows = block.Count*many, g.slice
		part = g.right.stack(s.slices, block.Count)
	}
	Product{A: block, B: block, TransA: true, C: part, Symmetric: true, Alpha: 1}.Record(rec, s.Device())
	if many > 1 {
		fours := g.width * g.width / 4
		params := struct{ Blocks, Slices, Fours, Add uint32 }{uint32(gram.Count), uint32(many), uint32(fours), 0}
		rec.Dispatch(kernelOf("diagonal_gram", "", shaders.Variant{}), gpu.Linear(uint64(gram.Count*fours), 64, s.Device().Limits()), params, part.Range, gram.Range)
	}
	return gram
}

// mix records x <- keep x + (1-keep) y, or of y².
func (s *SOAPState) mix(rec *gpu.Recording, flag gpu.Range, keep float64, squares bool, y Stack, x *gpu.Buffer) {
	k := kernelOf("soap_mix", "", shaders.Variant{Flags: map[string]bool{"SQUARES": squares}})
	n := uint32(y.elements() / 4)
	params := struct {
		Vecs       uint32
		Keep, Rest float32
	}{n, float32(keep), float32(1 - keep)}
	rec.Dispatch(k, gpu.Linear(uint64(n), 64, s.Device().Limits()), params, flag, y.bound(), x.All())
}

func (s *SOAPState) scale(rec *gpu.Recording, flag gpu.Range, g *soapGroup, m Stack) {
	c := s.config
	k := kernelOf("soap_scale", "", shaders.Variant{Flags: map[string]bool{"MOMENTUM": c.Momentum}})
	n := uint32(m.elements() / 4)
	params := struct {
		Vecs            uint32
		Eps, Keep, Rest float32
	}{n, float32(c.Eps), float32(c.B2), float32(1 - c.B2)}
	bind := []gpu.Range{s.update.All(), g.nu.All(), m.bound()}
	if c.Momentum {
		bind = []gpu.Range{s.update.All(), flag, g.nu.All(), m.bound()}
	}
	rec.Dispatch(k, gpu.Linear(uint64(n), 64, s.Device().Limits()), params, bind...)
}

// refresh makes the bases of the next update.
func (s *SOAPState) refresh(rec *gpu.Recording, flag gpu.Range, t *soapSides, count int) {
	lim := s.Device().Limits()
	coefficients, keep := s.coefficients.Range(0, 8*uint64(count)), s.keeper.Range(0, 4*uint64(count))
	rec.Dispatch(kernelOf("soap_trace", "", shaders.Variant{}), gpu.Linear(uint64(count), 1, lim), struct {
		Count, Size uint32
		Damping     float32
	}{uint32(count), uint32(t.size), float32(s.config.Damping)}, flag, t.table.All(), t.c.All(), coefficients, keep)
	q, moved := t.stack(t.q, count), t.stack(s.moved, count)
	Product{A: t.stack(t.c, count), B: q, C: moved, D: &q, Coefficients: coefficients}.Record(rec, s.Device())
	turns := s.turns.Range(0, 4*uint64(count*t.size))
	forth, back := newBasis(t.size, lim, false), newBasis(t.size, lim, true)
	forth.record(rec, lim, count, t.table.All(), keep, turns, moved.bound())
	back.record(rec, lim, count, t.table.All(), keep, turns, moved.bound(), q.bound())
}

// A basis is one of the two passes of kron_soap_basis.wgsl over matrices of a size.
type basis struct {
	size, lanes, across int
	back                bool
	kernel              *gpu.Kernel
}

// newBasis specialises it. On a software adapter a workgroup is one vector of eight invocations, for which a barrier is nearly free; a GPU wants many
// invocations: as many as go over the columns of a matrix, and rows beside them.
func newBasis(size int, lim gpu.Limits, back bool) basis {
	lanes := 8
	if size > 512 {
		lanes = 64 // of what one takes alone, softwareIterations are too few
	}
	if !lim.Software {
		lanes = min(256, lim.Invocations, max(64, 1<<bits.Len(uint(max(size*size/64, 1)-1))))
	}
	b := basis{size: size, lanes: lanes, across: min(lanes, 1<<bits.Len(uint(size/4-1))), back: back}
	room := 32
	for room < size {
		room *= 2
	}
	suffix := map[bool]string{false: "", true: "_back"}[back]
	b.kernel = kernelOf("soap_basis", fmt.Sprintf("%s_%d", suffix, room), shaders.Variant{Flags: map[string]bool{"BACK": back}, Constants: map[string]string{
		"LANES": fmt.Sprint(lanes), "ACROSS": fmt.Sprint(b.across), "HEADS": fmt.Sprint(min(lanes, 16)), "ROOM": fmt.Sprint(room),
	}})
	return b
}

// softwareIterations are the turns of loops that an invocation of a dispatch takes on a software adapter: llvmpipe leaves all loops after 65,535.
const softwareIterations = 50_000

// iterations bounds what reflection k takes.
func (b basis) iterations(k int) int {
	rows, down := b.size-k, b.lanes/b.across
	each := down + 2*(rows/down+1) + 1
	return 3*(rows/b.lanes+1) + 2*16 + (rows/4/b.across+2)*each
}

// record records the dispatches of the pass: one, except on a software adapter.
func (b basis) record(rec *gpu.Recording, lim gpu.Limits, count int, bind ...gpu.Range) {
	cuts := []int{0}
	sum := b.size * b.size / 4 / b.lanes // of the beginning
	for k := range b.size {
		if n := b.iterations(k); lim.Software && sum+n > softwareIterations {
			cuts, sum = append(cuts, k), n
		} else {
			sum += n
		}
	}
	cuts = append(cuts, b.size)
	for i := range len(cuts) - 1 {
		if b.back {
			i = len(cuts) - 2 - i
		}
		params := struct{ Count, Size, From, To uint32 }{uint32(count), uint32(b.size / 4), uint32(cuts[i]), uint32(cuts[i+1])}
		rec.Dispatch(b.kernel, gpu.Linear(uint64(count), 1, lim), params, bind...)
	}
}
