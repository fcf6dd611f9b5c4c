package kron

import (
	"fmt"
	"math"

	"gputrain/buffers"
)

// SOAPTwin is the definition of SOAP, on the host: equations in float64, state rounded to f32 after each update.
type SOAPTwin struct {
	config SOAP
	leaves []soapLeaf
}

type soapLeaf struct {
	matrix Matrix
	blocks []*soapBlock
}

type soapBlock struct {
	place       twinBlock // for where it lies
	nu          []float64
	left, right *soapSide // nil: not turned
}

// soapSide is a covariance and a basis, [n, n].
type soapSide struct {
	n    int
	c, q []float64
}

// NewSOAPTwin makes the state before the first update for the leaves at hand; nil means all of the plan.
func NewSOAPTwin(p *Plan, c SOAP, leaves []string) (*SOAPTwin, error) {
	t := &SOAPTwin{config: c}
	if leaves == nil {
		for _, m := range p.Leaves {
			leaves = append(leaves, m.Path)
		}
	}
	for _, path := range leaves {
		m, ok := p.Leaf(path)
		if !ok {
			return nil, fmt.Errorf("kron: soap: leaf %q: not in the plan", path)
		}
		l := soapLeaf{matrix: m}
		for _, b := range p.BlocksOf(m) {
			s := &soapBlock{place: twinBlock{leaf: m, block: b}, nu: make([]float64, b.Rows*b.Cols)}
			left, right := m.Kind.turns()
			if left {
				s.left = newSOAPSide(b.Rows)
			}
			if right {
				s.right = newSOAPSide(b.Cols)
			}
			l.blocks = append(l.blocks, s)
		}
		t.leaves = append(t.leaves, l)
	}
	return t, nil
}

func newSOAPSide(n int) *soapSide {
	s := &soapSide{n: n, c: make([]float64, n*n), q: make([]float64, n*n)}
	for i := range n {
		s.q[i*n+i] = 1
	}
	return s
}

// Follow takes the gradients: covariances, and nu unless that is of the momentum. u stays.
func (t *SOAPTwin) Follow(u map[string][]float64, skip bool) {
	t.each(skip, func(b *soapBlock, path string) { b.follow(t.config, b.place.read(u[path])) })
}

// Turn rewrites u, the corrected momentum, as update n counted from 1. With skip nothing changes.
func (t *SOAPTwin) Turn(n int64, u map[string][]float64, refresh, skip bool) {
	t.each(skip, func(b *soapBlock, path string) {
		b.place.write(u[path], b.turn(t.config, b.place.read(u[path]), n))
		if refresh {
			b.left.refresh(t.config.Damping)
			b.right.refresh(t.config.Damping)
		}
	})
}

func (t *SOAPTwin) each(skip bool, do func(b *soapBlock, path string)) {
	for _, l := range t.leaves {
		for _, b := range l.blocks {
			if !skip {
				do(b, l.matrix.Path)
			}
		}
	}
}

// turned is Qlᵀ x Qr, or back Ql x Qrᵀ.
func (b *soapBlock) turned(x []float64, back bool) []float64 {
	rows := b.place.block.Rows
	basis := func(s *soapSide, turned bool) []float64 {
		if turned {
			return transpose(s.q, s.n, s.n)
		}
		return s.q
	}
	if b.left != nil {
		x = matmul(basis(b.left, !back), x, rows)
	}
	if b.right != nil {
		x = matmul(x, basis(b.right, back), rows)
	}
	return x
}

func (b *soapBlock) follow(c SOAP, g []float64) {
	if !c.Momentum {
		b.measure(c, b.turned(g, false))
	}
	rows, cols := b.place.block.Rows, b.place.block.Cols
	other := transpose(g, rows, cols)
	if b.left != nil {
		b.left.follow(c.Decay, matmul(g, other, rows))
	}
	if b.right != nil {
		b.right.follow(c.Decay, matmul(other, g, cols))
	}
}

func (b *soapBlock) measure(c SOAP, r []float64) {
	for i, x := range r {
		b.nu[i] = float64(float32(c.B2*b.nu[i] + (1-c.B2)*x*x))
	}
}

func (s *soapSide) follow(decay float64, gram []float64) {
	for i, x := range gram {
		s.c[i] = float64(float32(decay*s.c[i] + (1-decay)*x))
	}
}

func (b *soapBlock) turn(c SOAP, h []float64, n int64) []float64 {
	m := b.turned(h, false)
	if c.Momentum {
		b.measure(c, m)
	}
	for i, x := range m {
		if x != 0 {
			m[i] = x / (math.Sqrt(b.nu[i]/c.correction(n)) + c.Eps)
		}
	}
	return b.turned(m, true)
}

func (s *soapSide) refresh(damping float64) {
	if s == nil {
		return
	}
	size := trace(s.c, s.n)
	if !(size > tiny) {
		return
	}
	a := matmul(s.c, s.q, s.n)
	for i, x := range s.q {
		a[i] += damping * size / float64(s.n) * x
	}
	for i, x := range orthogonalTwin(a, s.n) {
		s.q[i] = float64(float32(x))
	}
}

// orthogonalTwin is the orthogonal factor of a [n, n] whose triangular factor has no diagonal below zero, by Householder reflections: where columns
// of a are sums of those before them, it is still orthogonal.
func orthogonalTwin(a []float64, n int) []float64 {
	r, q := append([]float64{}, a...), newSOAPSide(n).q
	for k := range n {
		v := make([]float64, n)
		norm := 0.0
		for i := k; i < n; i++ {
			v[i] = r[i*n+k]
			norm = math.Hypot(norm, v[i])
		}
		if !(norm > 1e-18*largest(a)) {
			continue
		}
		v[k] += math.Copysign(norm, v[k])
		squares := rowSquares(v, 1)[0]
		reflect := func(x []float64, column bool) { // (I - 2 v vᵀ/vᵀv) x, or x times that
			for i := range n {
				at := func(j int) *float64 {
					if column {
						return &x[j*n+i]
					}
					return &x[i*n+j]
				}
				dot := 0.0
				for j := k; j < n; j++ {
					dot += v[j] * *at(j)
				}
				for j := k; j < n; j++ {
					*at(j) -= 2 * dot / squares * v[j]
				}
			}
		}
		reflect(r, true)
		reflect(q, false)
	}
	for k := range n {
		if r[k*n+k] < 0 {
			for i := range n {
				q[i*n+k] = -q[i*n+k]
			}
		}
	}
	return q
}

// Tensors is the state as it is saved; see SOAPState.Tensors.
func (t *SOAPTwin) Tensors() []buffers.Host {
	var out []buffers.Host
	for _, l := range t.leaves {
		m := l.matrix
		if len(l.blocks) == 0 {
			continue
		}
		nu := make([]float64, m.Batch*m.Rows*m.Cols)
		for _, b := range l.blocks {
			b.place.write(nu, b.nu)
		}
		out = append(out, soapHost("nu/"+m.Path, m.Shape, nu))
		for _, s := range []struct {
			name string
			of   func(b *soapBlock) (side *soapSide, x []float64)
		}{
			{"Cl/", func(b *soapBlock) (*soapSide, []float64) { return b.left, b.left.c }},
			{"Ql/", func(b *soapBlock) (*soapSide, []float64) { return b.left, b.left.q }},
			{"Cr/", func(b *soapBlock) (*soapSide, []float64) { return b.right, b.right.c }},
			{"Qr/", func(b *soapBlock) (*soapSide, []float64) { return b.right, b.right.q }},
		} {
			right := s.name[1] == 'r'
			if left, also := m.Kind.turns(); right && !also || !right && !left {
				continue
			}
			most := soapSize(l.placed(), right)
			var data []float64
			for _, b := range l.blocks {
				side, x := s.of(b)
				padded := make([]float64, most*most)
				for i, v := range x {
					padded[i/side.n*most+i%side.n] = v
				}
				data = append(data, padded...)
			}
			out = append(out, soapHost(s.name+m.Path, soapShape(len(l.blocks), most), data))
		}
	}
	return out
}

func (l soapLeaf) placed() []Block {
	var out []Block
	for _, b := range l.blocks {
		out = append(out, b.place.block)
	}
	return out
}

// soapSize is the largest side of a leaf's blocks, with which all are saved.
func soapSize(blocks []Block, right bool) int {
	rows, cols := largestOf(blocks)
	if right {
		return cols
	}
	return rows
}

// soapShape is the shape of one side of a leaf's blocks: of a single block, that of a matrix.
func soapShape(blocks, side int) []int {
	if blocks == 1 {
		return []int{side, side}
	}
	return []int{blocks, side, side}
}

func soapHost(path string, shape []int, data []float64) buffers.Host {
	h := buffers.Host{Path: path, Shape: shape, Data: make([]float32, len(data))}
	for i, x := range data {
		h.Data[i] = float32(x)
	}
	return h
}
