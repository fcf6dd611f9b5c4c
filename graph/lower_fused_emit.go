package graph

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gputrain/gpu"
	"gputrain/shaders"
)

// collapse merges neighbouring axes of the domain that every index runs through as one, and chooses vec4s where the last
// axis that is left allows it. With pad the last vec4 may run over the end.
func (f *fused) collapse(root *ir, pad bool) {
	guarded := map[int]bool{}
	f.visit(root, func(x *ir) {
		if x.kind == irGuard {
			guarded[x.dim] = true
		}
	})
	f.merged = make([]int, len(f.domain))
	last := -1 // the axis merged last
	var axes []int
	for d, size := range f.domain {
		f.merged[d] = -1
		if size == 1 {
			continue
		}
		joins := last >= 0 && !guarded[d] && !guarded[last]
		for _, l := range f.linears {
			joins = joins && l.coef[last] == l.coef[d]*size
		}
		if joins {
			f.dims[len(f.dims)-1] *= size
			axes[len(axes)-1] = d
		} else {
			f.dims = append(f.dims, size)
			axes = append(axes, d)
		}
		f.merged[d] = len(f.dims) - 1
		last = d
	}
	if len(f.dims) == 0 {
		f.dims = []int{1}
	}
	for _, l := range f.linears {
		coef := make([]int, len(f.dims))
		for i, d := range axes {
			coef[i] = l.coef[d]
		}
		l.coef = coef
	}
	f.vec = f.fitsVectors(root, pad)
}

// fitsVectors is whether an invocation may compute four neighbours along the last axis.
func (f *fused) fitsVectors(root *ir, pad bool) bool {
	end := len(f.dims) - 1
	whole := f.dims[end]%4 == 0
	fits := true
	f.visit(root, func(x *ir) {
		if x.kind == irGuard && (!whole || f.merged[x.dim] == end && (x.lo%4 != 0 || x.hi%4 != 0)) {
			fits = false
		}
	})
	if whole || !fits {
		return fits
	}
	if !pad || end > 0 || f.dims[end] == 1 {
		return false
	}
	for _, l := range f.linears { // every operand from its start, or constant: the padding is there to read
		if l.off != 0 || l.coef[end] > 1 {
			return false
		}
	}
	return true
}

func (f *fused) lanes() int {
	if f.vec {
		return 4
	}
	return 1
}

// items is the number of invocations: elements, or vec4s.
func (f *fused) items() int {
	n := elements(f.dims)
	return (n + f.lanes() - 1) / f.lanes()
}

// A load of a vec4 kernel reads a vec4 where the operand is contiguous and aligned along the last axis, one number for
// all lanes where it is constant along it, four numbers elsewhere.
func (f *fused) contiguous(l *linear) bool {
	end := len(f.dims) - 1
	if l.coef[end] != 1 || l.off%4 != 0 {
		return false
	}
	for _, k := range l.coef[:end] {
		if k%4 != 0 {
			return false
		}
	}
	return true
}

// straight is whether an index is the invocation's own.
func (f *fused) straight(l *linear) bool {
	stride := 1
	for d := len(f.dims) - 1; d >= 0; d-- {
		if l.coef[d] != stride && f.dims[d] > 1 {
			return false
		}
		stride *= f.dims[d]
	}
	return l.off == 0
}

// chooseBindings gives every load of the expression a binding, shared by loads of one span; where both vec4 and scalar
// bindings of one span would be too many for the device, beside the kernel's own, the kernel is scalar.
func (f *fused) chooseBindings(root *ir, own int) {
	f.bound = nil
	f.visit(root, func(x *ir) {
		if x.load == nil {
			return
		}
		l := x.load
		l.vector = f.vec && x.kind == irLoad && f.contiguous(x.index)
		i := slices.IndexFunc(f.bound, func(b *load) bool { return b.part.Span == l.part.Span && b.vector == l.vector && b.raw == l.raw })
		if i < 0 {
			l.name = fmt.Sprintf("in%d", len(f.bound))
			f.bound = append(f.bound, l)
			return
		}
		l.name = f.bound[i].name
	})
	if len(f.bound)+own > f.c.limits.StorageBuffers && f.vec {
		f.vec = false
		f.chooseBindings(root, own)
	}
}

// takeOver lets the result have the storage of an operand that dies here and is read only at the index that is written.
func (f *fused) takeOver(part tensorPart) tensorPart {
	if f.result == nil || f.out.Accumulate || len(f.out.Parts) > 1 || part.Span.st.kind != transientStorage {
		return part
	}
	for i, l := range f.bound {
		st := l.part.Span.st
		if st == nil || st.kind != transientStorage || l.value == nil || l.part.Span != (span{st: st, Bytes: st.bytes}) || st.bytes != part.Span.st.bytes {
			continue
		}
		owner := f.c.root(l.value)
		if f.c.lastUse[owner] != f.c.current || f.c.pinned(owner) || (f.vec != l.vector) {
			continue
		}
		alone := true
		for _, o := range f.loads {
			if o.part.Span.st == st && (o.name != l.name || !f.straight(o.index)) {
				alone = false
			}
		}
		if !alone {
			continue
		}
		for _, o := range f.loads {
			if o.part.Span.st == st {
				o.name = "result"
			}
		}
		f.bound = slices.Delete(f.bound, i, i+1)
		for n, b := range f.bound {
			old := b.name
			for _, o := range f.loads {
				if o.name == old {
					o.name = fmt.Sprintf("in%d", n)
				}
			}
		}
		t := f.out
		t.Parts = []tensorPart{{Rows: part.Rows, Span: l.part.Span}}
		f.c.places[f.result] = t
		return t.Parts[0]
	}
	return part
}

// spans are what the kernel's operands are bound to, in order.
func (f *fused) spans() []span {
	var out []span
	for _, l := range f.bound {
		out = append(out, l.part.Span)
	}
	return out
}

// kernel specialises a shader that calls value(i) for the i-th item of the domain; v has what else the shader wants.
func (f *fused) kernel(name, suffix string, root *ir, v shaders.Variant) *gpu.Kernel {
	v.Flags["DROPOUT"] = false
	f.visit(root, func(x *ir) { v.Flags["DROPOUT"] = v.Flags["DROPOUT"] || x.kind == irDropout })
	v.Constants["T"] = f.typeName(f.vec)
	v.Constants["RESULT"] = strconv.Itoa(len(f.bound))
	var decl strings.Builder
	for i, l := range f.bound {
		elem := f.typeName(l.vector)
		if l.raw {
			elem = "u32"
		}
		fmt.Fprintf(&decl, "@group(0) @binding(%d) var<storage, read> in%d: array<%s>;\n", i, i, elem)
	}
	v.Constants["BINDINGS"] = decl.String()
	b := body{f: f, used: map[int]bool{}}
	value := b.emit(root, &scope{names: map[*ir]string{}})
	v.Constants["BODY"] = f.coordinates(b.used) + b.text.String() + "    return " + value + ";"
	return f.c.kernel(name, suffix, v)
}

func (f *fused) typeName(vector bool) string {
	if vector {
		return "vec4<f32>"
	}
	return "f32"
}

// coordinates declares the coordinates that a body uses: c0, c1, .. along dims, the last in items.
func (f *fused) coordinates(used map[int]bool) string {
	text := ""
	below := 1 // items of the axes after d
	for d := len(f.dims) - 1; d >= 0; d-- {
		size := f.dims[d]
		if d == len(f.dims)-1 {
			size = (size + f.lanes() - 1) / f.lanes()
		}
		if used[d] {
			at := "i"
			if below > 1 {
				at = fmt.Sprintf("i / %du", below)
			}
			if d > 0 {
				at = fmt.Sprintf("(%s) %% %du", at, size)
			}
			text += fmt.Sprintf("    let c%d = %s;\n", d, at)
		}
		below *= size
	}
	return text
}

// body is the text of a function value(i) under way.
type body struct {
	f     *fused
	text  strings.Builder
	count int
	used  map[int]bool // coordinates
}

// scope holds the names of what has been computed in a block and those around it.
type scope struct {
	names map[*ir]string
	up    *scope
}

func (s *scope) find(x *ir) (string, bool) {
	for ; s != nil; s = s.up {
		if n, ok := s.names[x]; ok {
			return n, true
		}
	}
	return "", false
}

// emit writes the statements that compute x and returns its name.
func (b *body) emit(x *ir, s *scope) string {
	if name, ok := s.find(x); ok {
		return name
	}
	f, t := b.f, b.f.typeName(b.f.vec)
	switch x.kind {
	case irConst:
		return b.literal(x.arg)
	case irGuard, irChoose:
		name := b.name(x, s)
		b.line("var %s = %s(0.0);", name, t)
		branches := x.in
		if x.kind == irGuard {
			branches = []*ir{x}
		}
		for _, g := range branches {
			inner := &scope{names: map[*ir]string{}, up: s}
			switch g.kind {
			case irGuard:
				b.line("if (%s) {", b.condition(g))
				b.line("%s = %s;", name, b.emit(g.in[0], inner))
				b.line("}")
			case irConst: // an operand without elements here
			default:
				b.line("{")
				b.line("%s = %s;", name, b.emit(g, inner))
				b.line("}")
			}
		}
		return name
	}
	var text string
	switch x.kind {
	case irLoad:
		text = b.loadText(x)
	case irCall:
		args := make([]string, len(x.in))
		for i, in := range x.in {
			args[i] = b.emit(in, s)
		}
		text = b.callText(x.fn, x.arg, args)
	case irDropout:
		in := b.emit(x.in[0], s)
		at := b.index(x.index)
		if f.vec {
			at = fmt.Sprintf("vec4<u32>(%s) + %du * vec4<u32>(0u, 1u, 2u, 3u)", at, x.index.coef[len(f.dims)-1])
		}
		text = fmt.Sprintf("dropout%d(%s, %s, %s[0], %s[1], %du, %du, %s)", f.lanes(), in, at, x.load.name, x.load.name, x.salt,
			uint32(math.Ceil(x.arg*(1<<23))), float32Text(1/(1-x.arg)))
	}
	name := b.name(x, s)
	b.line("let %s = %s;", name, text)
	return name
}

func (b *body) name(x *ir, s *scope) string {
	name := fmt.Sprintf("t%d", b.count)
	b.count++
	s.names[x] = name
	return name
}

func (b *body) line(format string, args ...any) {
	b.text.WriteString("    " + fmt.Sprintf(format, args...) + "\n")
}

func (b *body) literal(v float64) string {
	if f := float32(v); math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		b.f.c.fail("constant %g: not a finite f32", v)
	}
	return fmt.Sprintf("%s(%s)", b.f.typeName(b.f.vec), float32Text(v))
}

// float32Text is a WGSL literal of the nearest f32.
func float32Text(v float64) string { return strconv.FormatFloat(v, 'g', -1, 32) + "f" }

// condition is a guard's test of its coordinate, in items along the last axis.
func (b *body) condition(g *ir) string {
	f := b.f
	d := f.merged[g.dim]
	b.used[d] = true
	unit := 1
	if d == len(f.dims)-1 {
		unit = f.lanes()
	}
	var tests []string
	if g.lo > 0 {
		tests = append(tests, fmt.Sprintf("c%d >= %du", d, g.lo/unit))
	}
	if g.hi < f.domain[g.dim] {
		tests = append(tests, fmt.Sprintf("c%d < %du", d, g.hi/unit))
	}
	return strings.Join(tests, " && ")
}

// loadText reads an operand.
func (b *body) loadText(x *ir) string {
	f, l := b.f, x.load
	end := len(f.dims) - 1
	switch {
	case f.straight(x.index) && f.vec == l.vector:
		return l.name + "[i]"
	case !f.vec || l.vector:
		return fmt.Sprintf("%s[%s]", l.name, b.index(x.index))
	case x.index.coef[end] == 0:
		return fmt.Sprintf("vec4<f32>(%s[%s])", l.name, b.index(x.index))
	}
	at, k := fmt.Sprintf("a%d", b.count), x.index.coef[end]
	b.count++
	b.line("let %s = %s;", at, b.index(x.index))
	return fmt.Sprintf("vec4<f32>(%s[%s], %s[%s + %du], %s[%s + %du], %s[%s + %du])", l.name, at, l.name, at, k, l.name, at, 2*k, l.name, at, 3*k)
}

// index is the text of a linear index: in vec4s for a contiguous load of a vec4 kernel, in elements otherwise.
func (b *body) index(l *linear) string {
	f := b.f
	end := len(f.dims) - 1
	unit := 1
	if f.vec && f.contiguous(l) && !l.inElements {
		unit = 4
	}
	var terms []string
	for d, k := range l.coef {
		if k == 0 || f.dims[d] == 1 {
			continue
		}
		b.used[d] = true
		if d == end {
			k *= f.lanes()
		}
		term := fmt.Sprintf("c%d", d)
		if k/unit != 1 {
			term = fmt.Sprintf("c%d * %du", d, k/unit)
		}
		terms = append(terms, term)
	}
	text := strings.Join(terms, " + ")
	switch off := l.off / unit; {
	case text == "":
		text = fmt.Sprintf("%du", off)
	case off > 0:
		text += fmt.Sprintf(" + %du", off)
	case off < 0: // inside a guard that keeps the sum from going below 0
		text += fmt.Sprintf(" - %du", -off)
	}
	return text
}
