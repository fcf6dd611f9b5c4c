package compile

import (
	"fmt"
	"slices"

	"gputrain/graph"
)

// fused is one kernel's expression over a domain: the shape of what it computes. Every operand is read at an index that
// is linear in the domain's coordinates.
type fused struct {
	c        *Compiler
	domain   []int
	firstRow int          // of the result, that the domain starts at, where a result is computed in several runs of rows
	out      Tensor       // of an elementwise kernel
	result   *graph.Value // whose storage out is, nil when none
	given    *graph.Value // of an epilogue: the result of the kernel that it is in, which has it at hand

	loads   []*load
	linears []*linear
	nodes   map[string]*ir

	dims   []int // the domain with axes merged where no operand tells them apart, in elements
	merged []int // the index in dims of each axis of the domain, -1 for axes of length one
	vec    bool  // an invocation computes four elements along the last of dims
	rounds bool  // some of them to BF16

	bound []operandBinding    // what the expression reads, in the order of the kernel's bindings
	taken map[*storage]string // operands' storages that results take over, and the names of these
}

func newFused(c *Compiler, domain []int) *fused {
	return &fused{c: c, domain: slices.Clone(domain), nodes: map[string]*ir{}, taken: map[*storage]string{}}
}

func (f *fused) rows() int {
	if len(f.domain) == 0 {
		return 1
	}
	return f.domain[0]
}

// axis says where the coordinate of a value's axis comes from: domain axis dim plus off, or off alone when dim is -1.
type axis struct{ dim, off int }

// linear is an index sum(coef[d]*coordinate[d]) + off over the domain, and after collapse over dims.
type linear struct {
	coef       []int
	off        int
	inElements bool // wanted in elements even where a vec4 could be read there
}

// load is one operand.
type load struct {
	tensor Tensor
	value  *graph.Value
	part   Part
	rowDim bool // its first axis runs along the domain's first
	rowOff int  // the operand's row at the domain's first
	index  *linear
	vector bool // bound as vec4s
	raw    bool // bound as u32s
}

type irKind uint8

const (
	irLoad irKind = iota
	irConst
	irCall    // fn(in...), with arg
	irGuard   // in[0] where lo <= coordinate[dim] < hi, else 0
	irChoose  // the guards in[...] exclude each other and cover the domain: whichever holds
	irDropout // in[0], kept by the random word at index, key from load
	irGiven   // the element of the kernel's own result
	irAll     // of in, each is stored
)

// ir is a value of the expression at the domain's coordinates; shared where two readers want the same one.
type ir struct {
	kind   irKind
	fn     string
	arg    float64
	in     []*ir
	load   *load
	index  *linear
	dim    int
	lo, hi int
	salt   uint32
}

// identity maps a value of the domain's shape (at firstRow) to the domain.
func (f *fused) identity() []axis {
	m := make([]axis, len(f.domain))
	for i := range m {
		m[i] = axis{dim: i}
	}
	if len(m) > 0 {
		m[0].off = f.firstRow
	}
	return m
}

// value is v at the mapped coordinates: loaded, or computed in this kernel.
func (f *fused) value(v *graph.Value, m []axis) *ir {
	if v == f.given {
		return f.rounded(v, &ir{kind: irGiven})
	}
	if f.c.expands(v) {
		return f.computed(v, m)
	}
	return f.loaded(v, m)
}

func (f *fused) loaded(v *graph.Value, m []axis) *ir {
	m = onesFixed(v.Shape(), m)
	key := fmt.Sprintf("%p%v", v, m)
	if x, ok := f.nodes[key]; ok {
		return x
	}
	t := f.c.In(v)
	x := f.loadAt(t, f.linearOf(v.Shape(), m))
	x.load.value = v
	if len(m) > 0 && m[0].dim == 0 {
		x.load.rowDim, x.load.rowOff = true, m[0].off
		f.pickPart(x)
	} else {
		f.c.One(t, "operand "+f.c.valueLabel(v))
	}
	f.nodes[key] = x
	return x
}

// loadAt is the element of a tensor at an index over the domain.
func (f *fused) loadAt(t Tensor, at *linear) *ir {
	l := &load{tensor: t, index: at}
	if len(t.Parts) > 0 {
		l.part = t.Parts[0]
	}
	f.loads = append(f.loads, l)
	f.linears = append(f.linears, at)
	return &ir{kind: irLoad, load: l, index: at}
}

// rowLoad is the element of a tensor of the domain's shape that the invocation's own row has.
func (f *fused) rowLoad(t Tensor) *ir {
	x := f.loadAt(t, f.linearOf(t.Shape, f.identity()))
	x.load.rowDim, x.load.rowOff = true, f.firstRow
	f.pickPart(x)
	return x
}

// pickPart binds the part that holds the first row, and counts rows from its start.
func (f *fused) pickPart(x *ir) {
	l := x.load
	for _, p := range l.tensor.Parts {
		if l.rowOff >= p.Row && l.rowOff < p.Row+p.Rows {
			l.part = p
			x.index.off -= p.Row * l.tensor.width()
		}
	}
}

// cuts are the rows of the domain at which an operand's next part begins.
func (l *load) cuts() []int {
	if !l.rowDim || len(l.tensor.Parts) < 2 {
		return nil
	}
	var at []int
	for _, p := range l.tensor.Parts {
		at = append(at, p.Row-l.rowOff, p.Row+p.Rows-l.rowOff)
	}
	return at
}

// computed is the op of v's node at the mapped coordinates of its result.
func (f *fused) computed(v *graph.Value, m []axis) *ir {
	m = onesFixed(v.Shape(), m)
	key := fmt.Sprintf("%p%v", v, m)
	if x, ok := f.nodes[key]; ok {
		return x
	}
	x := f.rounded(v, lowerings[v.Node().Op.Kind()].fuse(f, v.Node(), m))
	f.nodes[key] = x
	return x
}

func (f *fused) call(fn string, arg float64, in ...*ir) *ir {
	return &ir{kind: irCall, fn: fn, arg: arg, in: in}
}

// guarded is v where its coordinate along axis lies in its shape, 0 elsewhere.
func (f *fused) guarded(v *graph.Value, m []axis, at int) *ir {
	a, size := m[at], v.Shape()[at]
	lo, hi := max(0, -a.off), size-a.off
	if a.dim < 0 { // one coordinate: decided here
		if a.off < 0 || a.off >= size {
			return &ir{kind: irConst}
		}
		return f.value(v, m)
	}
	hi = min(hi, f.domain[a.dim])
	if lo >= hi {
		return &ir{kind: irConst}
	}
	if lo == 0 && hi == f.domain[a.dim] {
		return f.value(v, m)
	}
	if size == 1 {
		m = slices.Clone(m)
		m[at] = axis{dim: -1}
	}
	return &ir{kind: irGuard, dim: a.dim, lo: lo, hi: hi, in: []*ir{f.value(v, m)}}
}

// onesFixed fixes the coordinate of axes of length one, which is what broadcasting does.
func onesFixed(shape []int, m []axis) []axis {
	m = slices.Clone(m)
	for i, d := range shape {
		if d == 1 {
			m[i] = axis{dim: -1}
		}
	}
	return m
}

func shifted(m []axis, at, by int) []axis {
	m = slices.Clone(m)
	m[at].off += by
	return m
}

// linearOf is the row-major index of a value of a shape at mapped coordinates.
func (f *fused) linearOf(shape []int, m []axis) *linear {
	l := &linear{coef: make([]int, len(f.domain))}
	stride := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if m[i].dim >= 0 {
			l.coef[m[i].dim] += stride
		}
		l.off += stride * m[i].off
		stride *= shape[i]
	}
	return l
}

// visit calls fn once for every node of an expression, operands first.
func (f *fused) visit(root *ir, fn func(x *ir)) {
	seen := map[*ir]bool{}
	var walk func(x *ir)
	walk = func(x *ir) {
		if seen[x] {
			return
		}
		seen[x] = true
		for _, in := range x.in {
			walk(in)
		}
		fn(x)
	}
	walk(root)
}
