package compile

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

// Lowering says how nodes of one operation become dispatches, and what proves it.
type Lowering struct {
	// Lower runs once a node, without a device, and calls the compiler's In, Out, One, Kernel and Dispatch; the memory plan is drawn
	// afterwards from the dispatches.
	Lower func(c *Compiler, n *graph.Node)

	// Leaf is set when Lower writes its outputs wherever Out says: in several row parts, and adding when the tensor says Accumulate. Without
	// it, Out is always memory of its own, and a value that a gradient leaf wants is copied or added there by a dispatch of the
	// compiler's.
	Leaf bool

	// InPlace names the outputs that are an input changed in place: output to input.
	InPlace map[int]int

	// Checks compare what Lower computes with graph.Eval.
	Checks []Check

	// A kernel that takes an epilogue has finish, which is Lower with one, for those nodes that finishes names.
	finishes func(c *Compiler, n *graph.Node) bool
	finish   func(c *Compiler, n *graph.Node, e *epilogue)

	prologue bool // Lower computes inlined operands inside its own kernel (see fused.expression)

	// An operation that computes an element from a bounded number of operand elements has fuse in place of Lower: the element at mapped
	// coordinates (see fused.go).
	fuse    func(f *fused, n *graph.Node, m []axis) *ir
	cheap   func(n *graph.Node) bool // computing it again costs less than reading its result
	repeats bool                     // the result may have an operand's elements several times
}

// lowerings by op kind.
var lowerings = map[string]Lowering{}

// Register gives an operation its lowering. It is called by init functions, in the file of the lowering, here and in programs that bring
// operations of their own. A second one for a kind, and one without Lower, are a panic.
func Register(op graph.Op, l Lowering) {
	if _, taken := lowerings[op.Kind()]; taken || (l.Lower == nil) == (l.fuse == nil) {
		panic(fmt.Sprintf("graph: compile: register: %T of kind %q: want one lowering of an operation", op, op.Kind()))
	}
	lowerings[op.Kind()] = l
}

// pairLowering lowers a node and the node of its gradient together when both are in one program and nothing the
// gradient needs depends on the forward node's outputs.
type pairLowering struct {
	forward, gradient string // kinds
	match             func(forward, gradient *graph.Node) bool
	lower             func(c *Compiler, forward, gradient *graph.Node)
	leaf              bool
}

var pairLowerings []pairLowering

// In is where an operand lives. Views (reshape, a slice of leading rows) are resolved: the tensor has the view's shape. Like Out, it has several
// parts where it is larger than a binding; a lowering that wants one asks One.
func (c *Compiler) In(v *graph.Value) Tensor { return c.place(v) }

// Out is where a result must be written: a fresh storage, a named output, or (lowerings with Leaf set) the parts of a
// gradient leaf, with Accumulate. The same tensor on every call.
func (c *Compiler) Out(v *graph.Value) Tensor { return c.place(v) }

// used is whether anything in the program reads v or any target wants it; an output that nobody wants has still to be
// written, or not produced at all, as the kernel likes.
func (c *Compiler) used(v *graph.Value) bool { return len(c.readers[v]) > 0 || c.wanted(v) }

// One is the span of a tensor that must lie in a single binding; otherwise the compilation fails with an error that
// names the subject. A tensor of no elements has the zero span: never dispatch over it.
func (c *Compiler) One(t Tensor, subject string) Span {
	if len(t.Parts) > 1 {
		lower := "the batch or the context"
		if kind := t.Parts[0].Span.st.kind; kind == paramStorage || kind == gradStorage {
			lower = "the width"
		}
		c.tooLarge(fmt.Sprintf("%s %v, which this operation needs in one binding", subject, t.Shape), typeBytes(t.Shape, t.DType), c.largest(), "BindingBytes", lower)
	}
	if len(t.Parts) == 0 {
		return Span{}
	}
	return t.Parts[0].Span
}

// workspace is f32 memory for the node being lowered alone: contents undefined at first, one part.
func (c *Compiler) workspace(label string, shape ...int) Tensor {
	return c.workspaceOf(buffers.F32, label, shape...)
}

// workspaceOf is workspace in f32 or bf16.
func (c *Compiler) workspaceOf(d buffers.DType, label string, shape ...int) Tensor {
	st := c.newStorage(transientStorage, c.group+"."+label, typeBytes(shape, d))
	st.workspace, st.bf16 = true, d == buffers.BF16
	c.bf16 = c.bf16 || st.bf16
	return wholeTensor(st, shape, d)
}

// constant is a table computed on the host at compile time and written to the device once. Tables of one label are
// shared, so the label must determine the contents.
func (c *Compiler) constant(label string, d buffers.DType, shape []int, data func() []byte) Tensor {
	if t, ok := c.constants[label]; ok {
		return t
	}
	st := c.newStorage(constantStorage, label, typeBytes(shape, d))
	if c.materialize {
		st.data = data()
	}
	t := wholeTensor(st, shape, d)
	c.constants[label] = t
	return t
}

// derived is a u32 tensor that the host computes from the elements of an I32 or U32 Input each time it is written (sorted
// token runs, say). source must be an Input or a view of a whole one. derive gets the source's elements and fills dst,
// of exactly the tensor's bytes; its error becomes Program.Write's. Derivations of one source and label are shared, so
// the label must determine the function.
func (c *Compiler) derived(source *graph.Value, label string, shape []int, derive func(dst []byte, src []int32) error) Tensor {
	in := c.inputOf(source)
	if in == nil {
		c.fail("%s: input of %s: found a computed value, want an Input (or a view of a whole one)", label, source.Node().Op.Kind())
		return Tensor{Shape: shape, DType: buffers.U32}
	}
	st := c.derivation(in, label, typeBytes(shape, buffers.U32), derive)
	return wholeTensor(st, shape, buffers.U32)
}

// derivation is memory for so many bytes that the host computes from an input.
func (c *Compiler) derivation(in *programInput, label string, bytes uint64, derive func(dst []byte, src []int32) error) *storage {
	key := in.name + "." + label
	for _, known := range in.derived {
		if known.storage.label == key {
			return known.storage
		}
	}
	st := c.newStorage(inputStorage, key, bytes)
	in.derived = append(in.derived, derivation{storage: st, bytes: bytes, derive: derive})
	return st
}

// check registers a condition on the elements of an I32 or U32 Input (token ids in range, say), tested by Program.Write.
// A computed source is not checked. Checks of one label are made once.
func (c *Compiler) check(source *graph.Value, label string, test func(src []int32) error) {
	in := c.inputOf(source)
	if in == nil {
		return
	}
	for _, known := range in.checks {
		if known.label == label {
			return
		}
	}
	in.checks = append(in.checks, inputCheck{label: label, test: test})
}

// kernel is the named shader of package shaders in one variant. suffix distinguishes variants in profiles: the label is
// gputrain.graph.<name><suffix>.
func (c *Compiler) kernel(name, suffix string, v shaders.Variant) *gpu.Kernel {
	return gpu.NewKernel("gputrain.graph."+name+suffix, name, v)
}

// Dispatch appends one dispatch. params (nil, or the kernel's uniform at binding 0, see gpu.Kernel.Params) comes first, then bind fills the
// other bindings in order.
func (c *Compiler) Dispatch(k *gpu.Kernel, grid gpu.Grid, params any, bind ...Span) {
	if c.err != nil {
		return
	}
	cmd := command{group: c.group, kernel: k, grid: grid, params: params, bind: bind}
	if _, err := k.Params(params); err != nil {
		c.fail("%s: %v", k.Label, err)
		return
	}
	want := len(k.Bindings)
	if params != nil {
		want--
	}
	if len(bind) != want {
		c.fail("%s: %d spans, want %d", k.Label, len(bind), want)
		return
	}
	for i, s := range bind {
		if s.st == nil || s.Bytes == 0 {
			c.fail("%s: binding %d: nothing bound", k.Label, i)
			return
		}
		if s.Offset%c.limits.StorageAlign != 0 || s.Offset+s.Bytes > s.st.bytes {
			c.fail("%s: binding %d: span %d+%d of %d bytes, want an offset aligned to %d within the storage", k.Label, i,
				s.Offset, s.Bytes, s.st.bytes, c.limits.StorageAlign)
			return
		}
	}
	c.append(cmd)
}

// zero fills a span with zero bytes.
func (c *Compiler) zero(s Span) {
	if c.err != nil || s.st == nil {
		return
	}
	c.append(command{group: c.group, bind: []Span{s}})
}

// Linear is the grid of a kernel that handles items invocations of 64, folded as gpu.Linear does.
func (c *Compiler) Linear(items int) gpu.Grid { return gpu.Linear(uint64(items), 64, c.limits) }

// Kernel is a kernel of the given WGSL, for operations whose shaders are not among those of package shaders: entry main, bindings in group 0 in
// order from 0, a uniform of params first where there is one. The label is gputrain.graph.<name>.
func (c *Compiler) Kernel(name, source string) *gpu.Kernel {
	return gpu.KernelOf("gputrain.graph."+name, source)
}
