package compile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

// lowering says how nodes of one kind become dispatches. It runs once a node, without a device, and calls the
// compiler's in, out, workspace, kernel and dispatch; the memory plan is drawn afterwards from the dispatches.
type lowering struct {
	lower func(c *compiler, n *graph.Node)

	// leaf is set when the lowering writes its outputs wherever out says: in several row parts, and adding when the
	// tensor says Accumulate. Without it, out is always one part of memory of its own, and a value that a gradient leaf
	// wants is copied or added there by a dispatch of the compiler's.
	leaf bool

	// prologue is set when the lowering computes inlined operands inside its own kernel (see fused.expression).
	prologue bool
}

// lowerings by op kind; filled by the init functions of the files of operations.
var lowerings = map[string]lowering{}

// pairLowering lowers a node and the node of its gradient together when both are in one program and nothing the
// gradient needs depends on the forward node's outputs.
type pairLowering struct {
	forward, gradient string // kinds
	match             func(forward, gradient *graph.Node) bool
	lower             func(c *compiler, forward, gradient *graph.Node)
	leaf              bool
}

var pairLowerings []pairLowering

// in is where an operand lives. Views (reshape, a slice of leading rows) are resolved: the tensor has the view's shape.
func (c *compiler) in(v *graph.Value) tensor { return c.place(v) }

// out is where a result must be written: a fresh storage, a named output, or (lowerings with leaf set) the parts of a
// gradient leaf, with Accumulate. The same tensor on every call.
func (c *compiler) out(v *graph.Value) tensor { return c.place(v) }

// used is whether anything in the program reads v or any target wants it; an output that nobody wants has still to be
// written, or not produced at all, as the kernel likes.
func (c *compiler) used(v *graph.Value) bool { return len(c.readers[v]) > 0 || c.wanted(v) }

// one is the span of a tensor that must lie in a single binding; otherwise the compilation fails with an error that
// names the subject. A tensor of no elements has the zero span: never dispatch over it.
func (c *compiler) one(t tensor, subject string) span {
	if len(t.Parts) > 1 {
		c.fail("%s: %v of %d bytes is split into %d row parts, this operation needs it in one binding of %d bytes",
			subject, t.Shape, typeBytes(t.Shape, t.DType), len(t.Parts), c.limits.BindingBytes)
	}
	if len(t.Parts) == 0 {
		return span{}
	}
	return t.Parts[0].Span
}

// workspace is memory for the node being lowered alone: contents undefined at first, one part.
func (c *compiler) workspace(label string, d buffers.DType, shape ...int) tensor {
	st := c.newStorage(transientStorage, c.group+"."+label, typeBytes(shape, d))
	st.workspace = true
	return wholeTensor(st, shape, d)
}

// constant is a table computed on the host at compile time and written to the device once. Tables of one label are
// shared, so the label must determine the contents.
func (c *compiler) constant(label string, d buffers.DType, shape []int, data func() []byte) tensor {
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

// derived is a tensor that the host computes from the elements of an I32 or U32 Input each time it is written (sorted
// token runs, say). source must be an Input or a view of a whole one. derive gets the source's elements and fills dst,
// of exactly the tensor's bytes; its error becomes Program.Write's. Derivations of one source and label are shared, so
// the label must determine the function.
func (c *compiler) derived(source *graph.Value, label string, d buffers.DType, shape []int, derive func(dst []byte, src []int32) error) tensor {
	in := c.inputOf(source)
	if in == nil {
		c.fail("%s: input of %s: found a computed value, want an Input (or a view of a whole one)", label, source.Node().Op.Kind())
		return tensor{Shape: shape, DType: d}
	}
	key := in.name + "." + label
	for _, known := range in.derived {
		if known.storage.label == key {
			return wholeTensor(known.storage, shape, d)
		}
	}
	st := c.newStorage(inputStorage, key, typeBytes(shape, d))
	in.derived = append(in.derived, derivation{storage: st, bytes: typeBytes(shape, d), derive: derive})
	return wholeTensor(st, shape, d)
}

// check registers a condition on the elements of an I32 or U32 Input (token ids in range, say), tested by Program.Write.
// A computed source is not checked. Checks of one label are made once.
func (c *compiler) check(source *graph.Value, label string, test func(src []int32) error) {
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

// kernel is the named shader of package shaders in one variant. Its bindings and workgroup size are read from the
// source. suffix distinguishes variants in profiles: the label is gputrain.graph.<name><suffix>.
func (c *compiler) kernel(name, suffix string, v shaders.Variant) *gpu.Kernel {
	key := fmt.Sprint(name, suffix, v.Flags, v.Constants) // maps print in the order of their keys
	if known, ok := c.kernels[key]; ok {
		return known
	}
	k, err := newKernel(name, suffix, v)
	if err != nil {
		c.failErr(err)
		return nil
	}
	c.kernels[key] = k
	return k
}

// dispatch appends one dispatch. params (nil, or a struct of fixed-size fields laid out as the kernel's uniform at
// binding 0) comes first, then bind fills the other bindings in order. A nil kernel (after an error) is ignored.
func (c *compiler) dispatch(k *gpu.Kernel, grid gpu.Grid, params any, bind ...span) {
	if c.err != nil || k == nil {
		return
	}
	cmd := command{group: c.group, kernel: k, grid: grid, bind: bind}
	want := len(k.Bindings)
	if params != nil {
		cmd.params = paramBytes(params)
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
func (c *compiler) zero(s span) {
	if c.err != nil || s.st == nil {
		return
	}
	c.append(command{group: c.group, bind: []span{s}})
}

// linear is the grid of a kernel that handles items invocations of 64, folded as gpu.Linear does.
func (c *compiler) linear(items int) gpu.Grid { return gpu.Linear(uint64(items), 64, c.limits) }

// paramBytes is a params struct as the kernel's uniform sees it, padded to 16 bytes.
func paramBytes(params any) []byte {
	if raw, ok := params.([]byte); ok {
		return raw
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, params); err != nil {
		panic(fmt.Sprintf("graph: params %T: %v", params, err)) // a struct of our own that is not fixed-size
	}
	for b.Len()%16 != 0 {
		b.WriteByte(0)
	}
	return b.Bytes()
}

var (
	bindingPattern   = regexp.MustCompile(`@group\(0\)\s*@binding\((\d+)\)\s*var<([^>]*)>\s*(\w+)`)
	workgroupPattern = regexp.MustCompile(`@workgroup_size\(([^)]*)\)`)
	numberPattern    = regexp.MustCompile(`\d+`)
)

// reused are the kernels that read each element of their operands many times.
var reused = map[string]bool{
	"matmul": true, "matmul_scalar": true, "matmul_tiled": true, "attention": true, "attention_dq": true, "attention_dkv": true,
}

// newKernel reads a kernel's bindings and workgroup size from its specialised source.
func newKernel(name, suffix string, v shaders.Variant) (*gpu.Kernel, error) {
	source, err := shaders.Source(name+".wgsl", v)
	if err != nil {
		return nil, fmt.Errorf("graph: kernel %q: %w", name+suffix, err)
	}
	k := &gpu.Kernel{Label: "gputrain.graph." + name + suffix, Source: source, Workgroup: [3]int{1, 1, 1}, Reuse: reused[name]}
	access := map[string]gpu.Access{
		"uniform": gpu.Uniform, "storage": gpu.Read, "storage, read": gpu.Read, "storage,read": gpu.Read,
		"storage, read_write": gpu.ReadWrite, "storage,read_write": gpu.ReadWrite,
	}
	for i, m := range bindingPattern.FindAllStringSubmatch(source, -1) {
		a, ok := access[m[2]]
		if !ok || m[1] != strconv.Itoa(i) {
			return nil, fmt.Errorf("graph: kernel %q: binding %s var<%s> %s: want bindings in order from 0, uniform or storage", name+suffix, m[1], m[2], m[3])
		}
		k.Bindings = append(k.Bindings, gpu.Binding{Name: m[3], Access: a})
	}
	m := workgroupPattern.FindStringSubmatch(source)
	if m == nil {
		return nil, fmt.Errorf("graph: kernel %q: no @workgroup_size", name+suffix)
	}
	for i, n := range numberPattern.FindAllString(m[1], 3) {
		k.Workgroup[i], _ = strconv.Atoi(n)
	}
	return k, nil
}
