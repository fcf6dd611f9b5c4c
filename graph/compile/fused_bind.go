package compile

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

// chooseBindings gives every load of the expression a binding, shared by loads of one span; where both vec4 and scalar
// bindings of one span would be too many for the device, beside the kernel's own, the kernel is scalar.
func (f *fused) chooseBindings(root *ir, own int) {
	f.bound = nil
	f.visit(root, func(x *ir) {
		if x.load == nil {
			return
		}
		x.load.vector = f.vec && x.kind == irLoad && f.contiguous(x.index)
		if b := x.load.binding(); !slices.Contains(f.bound, b) {
			f.bound = append(f.bound, b)
		}
	})
	if len(f.bound)+own > f.c.limits.StorageBuffers && f.vec {
		f.vec = false
		f.chooseBindings(root, own)
	}
}

// operandBinding is a span and how a kernel sees it.
type operandBinding struct {
	span   Span
	vector bool
	raw    bool
}

func (l *load) binding() operandBinding { return operandBinding{l.part.Span, l.vector, l.raw} }

// name is the variable that a load reads.
func (f *fused) name(l *load) string {
	if name, ok := f.taken[l.part.Span.st]; ok {
		return name
	}
	return fmt.Sprintf("in%d", slices.Index(f.bound, l.binding()))
}

// takeOver lets a result, called name in the kernel, have the storage of an operand that dies here and is read only at the index that is written,
// and not by what the kernel reads besides. It returns the part to write.
func (f *fused) takeOver(v *graph.Value, out Tensor, part Part, name string, besides ...Span) Part {
	if v == nil || out.Accumulate || part.Row != f.firstRow || part.Rows != f.rows() || part.Span.st.kind != transientStorage {
		return part
	}
	for _, l := range f.loads {
		st := l.part.Span.st
		if l.value == nil || st == nil || st.kind != transientStorage || st.bytes != part.Span.st.bytes || st.bf16 != part.Span.st.bf16 || st.half != part.Span.st.half || !f.diesHere(l) || !f.onlyStraight(st) ||
			!f.onlyOwnRows(l) || f.taken[st] != "" || slices.ContainsFunc(besides, func(s Span) bool { return s.st == st }) {
			continue
		}
		f.taken[st], f.c.taken[unitStorage{f.c.current, st}] = name, true
		f.bound = slices.DeleteFunc(f.bound, func(b operandBinding) bool { return b.span.st == st })
		t := f.c.places[v]
		t.Parts = slices.Clone(t.Parts)
		i := slices.Index(t.Parts, part)
		t.Parts[i].Span = l.part.Span
		f.c.places[v] = t
		return t.Parts[i]
	}
	return part
}

// onlyOwnRows is whether the runs of rows after this one read nothing of this one's rows of the value behind a load.
func (f *fused) onlyOwnRows(l *load) bool {
	for _, other := range f.loads {
		if other.value != nil && f.c.root(other.value) == f.c.root(l.value) && len(other.tensor.Parts) > 1 && !(other.rowDim && other.rowOff == f.firstRow) {
			return false
		}
	}
	return true
}

// diesHere is whether this kernel is the last to read the value that a load's storage belongs to, and no target wants it.
func (f *fused) diesHere(l *load) bool {
	owner := f.c.root(l.value)
	return f.c.lastUse[owner] == f.c.current && !f.c.pinned(owner)
}

// onlyStraight is whether every load of a storage reads the whole of it, item by item as the result is written.
func (f *fused) onlyStraight(st *storage) bool {
	for _, l := range f.loads {
		if l.part.Span.st == st && (l.part.Span != (Span{st: st, Bytes: st.bytes}) || l.vector != f.vec || l.raw || !f.straight(l.index)) {
			return false
		}
	}
	return true
}

// spans are what the kernel's operands are bound to, in order.
func (f *fused) spans() []Span {
	var out []Span
	for _, b := range f.bound {
		out = append(out, b.span)
	}
	return out
}

// kernel specialises a shader that calls value(i) for the i-th item of the domain; v has what else the shader wants. The salts of dropouts are its
// params, nil where there are none, so that the layers of a model share kernels.
func (f *fused) kernel(name, suffix string, root *ir, v shaders.Variant) (k *gpu.Kernel, salts any) {
	b := body{f: f, used: map[int]bool{}}
	value := b.emit(root, &scope{names: map[*ir]string{}})
	uniform := ""
	if v.Flags["DROPOUT"] = b.salts != nil; b.salts != nil {
		salts = b.salts
		for i := range b.salts {
			uniform += fmt.Sprintf(" s%d: u32,", i)
		}
		uniform = "struct Salts {" + uniform + " }\n@bind var<uniform> salts: Salts;\n"
	}
	v.Flags["BF16"] = f.rounds
	v.Constants["T"] = f.typeName(f.vec)
	v.Constants["BINDINGS"] = uniform + f.declarations()
	v.Constants["BODY"] = f.coordinates(b.used) + b.text.String() + "    return " + value + ";"
	return f.c.kernel(name, suffix, v), salts
}

// declarations are those of the operands.
func (f *fused) declarations() string {
	var text strings.Builder
	for i, bound := range f.bound {
		elem := f.typeName(bound.vector)
		if bound.raw {
			elem = "u32"
		}
		fmt.Fprintf(&text, "@bind var<storage, read> in%d: array<%s>;\n", i, elem)
	}
	return text.String()
}

func (f *fused) typeName(vector bool) string {
	if vector {
		return "vec4<f32>"
	}
	return "f32"
}
