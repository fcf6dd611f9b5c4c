package compile

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// coordinates declares the coordinates that a body uses: c0, c1, .. along dims, the last in items. What is left of i after an axis is at, of which the axis
// before is the rest.
func (b *body) coordinates() string {
	f, at, text := b.f, "i", ""
	below := 1 // items of the axes between d and that of at
	for d := len(f.dims) - 1; d >= 0; d-- {
		size := f.dims[d]
		if d == len(f.dims)-1 {
			size = (size + f.lanes() - 1) / f.lanes()
		}
		if !b.used[d] {
			below *= size
			continue
		}
		if below > 1 {
			text += fmt.Sprintf("    let a%d = %s;\n", d, b.divided(at, below))
			at, below = fmt.Sprintf("a%d", d), 1
		}
		if d == 0 {
			text += fmt.Sprintf("    let c0 = %s;\n", at)
			break
		}
		text += fmt.Sprintf("    let b%d = %s;\n    let c%d = %s - b%d * %s;\n", d, b.divided(at, size), d, at, d, b.number(size))
		at = fmt.Sprintf("b%d", d)
	}
	return text
}

// number is the text of a count: a word of the kernel's params, so that kernels of other sizes have the same source. An epilogue has it in its text, as the
// params are those of the kernel that it is in.
func (b *body) number(n int) string { return b.word(uint32(n), fmt.Sprintf("%du", n)) }

// factor is the text of a number of f32, likewise.
func (b *body) factor(v float64) string {
	word := b.word(math.Float32bits(float32(v)), "")
	if word == "" {
		return float32Text(v)
	}
	return "bitcast<f32>(" + word + ")"
}

func (b *body) word(bits uint32, text string) string {
	if b.f.given != nil {
		return text
	}
	b.words = append(b.words, bits)
	return fmt.Sprintf("params.n%d", len(b.words)-1)
}

// maxQuickItems is how many items shared/divided.wgsl divides by a product with the reciprocal.
const maxQuickItems = 1 << 21

// divided is the text of an index divided by a count. Devices have no division of whole numbers: by a count that stands in the text it is a product and a
// shift, by a param it is some twenty instructions. So it is a product of f32 where that is exact, and larger domains have their counts in the text.
func (b *body) divided(at string, by int) string {
	if b.f.given != nil || b.f.items() > maxQuickItems {
		return fmt.Sprintf("%s / %du", at, by)
	}
	b.divides = true
	return fmt.Sprintf("divided(%s, %s)", at, b.factor(1/float64(by)))
}

// body is the text of a function value(i) under way.
type body struct {
	f       *fused
	text    strings.Builder
	count   int
	used    map[int]bool // coordinates
	words   []uint32     // of the kernel's params
	divides bool         // by shared/divided.wgsl
	drops   bool         // by shared/dropout.wgsl
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
	case irGiven:
		return "given"
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
			at = fmt.Sprintf("vec4<u32>(%s) + %s * vec4<u32>(0u, 1u, 2u, 3u)", at, b.number(x.index.coef[len(f.dims)-1]))
		}
		text = fmt.Sprintf("dropout%d(%s, %s, %s[0], %s[1], %s, %s, %s)", f.lanes(), in, at, f.name(x.load), f.name(x.load), b.number(int(x.salt)),
			b.number(int(math.Ceil(x.arg*(1<<23)))), b.factor(1/(1-x.arg)))
		b.drops = true
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
		tests = append(tests, fmt.Sprintf("c%d >= %s", d, b.number(g.lo/unit)))
	}
	if g.hi < f.domain[g.dim] {
		tests = append(tests, fmt.Sprintf("c%d < %s", d, b.number(g.hi/unit)))
	}
	return strings.Join(tests, " && ")
}

// loadText reads an operand.
func (b *body) loadText(x *ir) string {
	f, l := b.f, x.load
	end, name := len(f.dims)-1, b.f.name(l)
	switch {
	case f.straight(x.index) && f.vec == l.vector:
		return name + "[i]"
	case !f.vec || l.vector:
		return fmt.Sprintf("%s[%s]", name, b.index(x.index))
	case x.index.coef[end] == 0:
		return fmt.Sprintf("vec4<f32>(%s[%s])", name, b.index(x.index))
	}
	at, k := fmt.Sprintf("at%d", b.count), b.number(x.index.coef[end])
	b.count++
	b.line("let %s = %s;", at, b.index(x.index))
	return fmt.Sprintf("vec4<f32>(%s[%s], %s[%s + %s], %s[%s + 2u * %s], %s[%s + 3u * %s])", name, at, name, at, k, name, at, k, name, at, k)
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
			term = fmt.Sprintf("c%d * %s", d, b.number(k/unit))
		}
		terms = append(terms, term)
	}
	text := strings.Join(terms, " + ")
	switch off := l.off / unit; {
	case text == "":
		text = b.number(off)
	case off > 0:
		text += " + " + b.number(off)
	case off < 0: // inside a guard that keeps the sum from going below 0
		text += " - " + b.number(-off)
	}
	return text
}
