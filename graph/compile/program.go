package compile

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/suggest"
)

// Program is a compiled graph: a fixed list of dispatches over buffers that were made when it was compiled. Record
// appends them to a recording; recording creates nothing else, so one Program may be recorded once and submitted every step.
// A Program is used from one goroutine.
type Program struct {
	label    string
	dev      *gpu.Device
	commands []boundCommand
	inputs   map[string]*programInput
	ranges   map[*storage]gpu.Range
	outputs  map[string]gpu.Range
	buffers  []*gpu.Buffer
	plan     Plan
	kernels  []*gpu.Kernel
	units    []unitWork
	work     []gpu.Work // of the commands
}

// boundCommand is a command with its spans resolved.
type boundCommand struct {
	command
	ranges []gpu.Range
}

// programInput is one Input of the graph, with what the host derives from it.
type programInput struct {
	name    string
	typ     graph.Type
	tensor  Tensor
	storage *storage
	derived []derivation
	checks  []inputCheck
	scratch []byte
}

type derivation struct {
	storage *storage
	bytes   uint64
	derive  func(dst []byte, src []int32) error
	scratch []byte
}

type inputCheck struct {
	label string
	test  func(src []int32) error
}

// input is the program's side of an Input.
func (c *Compiler) input(name string, v *graph.Value) *programInput {
	if in, ok := c.inputs[name]; ok {
		return in
	}
	kind := inputStorage
	if _, ok := c.bound[name]; ok {
		kind = boundStorage
		if wide(v.DType()) != buffers.F32 && v.DType() != buffers.I32 {
			c.fail("bound input %q: %v, want %v, %v or %v", name, v.DType(), buffers.F32, buffers.BF16, buffers.I32)
		}
	}
	t, st := c.newTensor(kind, name, v)
	in := &programInput{name: name, typ: v.Type(), storage: st, tensor: t}
	c.inputs[name] = in
	return in
}

// newProgram allocates what the plan says and compiles the kernels.
func newProgram(ctx context.Context, c *Compiler, o Options) (*Program, error) {
	label := o.Label
	if label == "" {
		label = "program"
	}
	p := &Program{label: label, dev: c.dev, inputs: c.inputs, plan: c.plan, ranges: map[*storage]gpu.Range{}, outputs: map[string]gpu.Range{}, units: c.unitWorks()}
	if err := p.bind(c, o); err != nil {
		p.Release()
		return nil, err
	}
	maps.DeleteFunc(p.inputs, func(_ string, in *programInput) bool { return in.storage.kind == boundStorage })
	if err := p.formKernels(); err != nil {
		p.Release()
		return nil, err
	}
	if c.dev.Dry() {
		return p, nil
	}
	if err := c.dev.Compile(ctx, p.kernels, o.Progress); err != nil {
		p.Release()
		return nil, fmt.Errorf("graph: compile: %w", err)
	}
	return p, nil
}

// Kernels are those that the program runs, by label and source; what compiles them ahead, for several programs at once, has nothing left for
// New to do.
func (p *Program) Kernels() []*gpu.Kernel { return p.kernels }

// formKernels lists the kernels in the form that the device runs.
func (p *Program) formKernels() error {
	rec := p.dev.Record(p.label)
	p.Record(rec)
	if err := rec.Err(); err != nil {
		return fmt.Errorf("graph: compile: %w", err)
	}
	p.kernels = rec.Kernels()
	slices.SortFunc(p.kernels, func(a, b *gpu.Kernel) int {
		return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.Source, b.Source))
	})
	return nil
}

// bind makes the buffers and resolves every span.
func (p *Program) bind(c *Compiler, o Options) error {
	shared, err := p.scratch(c.planned, o.Arena)
	if err != nil {
		return err
	}
	for _, st := range c.storages {
		switch {
		case st.kind == transientStorage && st.buffer >= 0:
			p.ranges[st] = shared[st.buffer]
		case st.kind == transientStorage: // never used
		case st.kind == boundStorage:
			if p.ranges[st], err = bound(st, o.Bind[st.label]); err != nil {
				return err
			}
		default:
			r, err := p.buffer(st.label, st.bytes)
			if err != nil {
				return err
			}
			p.ranges[st] = r
			if st.kind == constantStorage && !p.dev.Dry() {
				data := make([]byte, st.bytes)
				copy(data, st.data)
				if err := p.dev.Write(r, data); err != nil {
					return fmt.Errorf("graph: compile: %s: %w", st.label, err)
				}
			}
		}
	}
	for key, st := range c.slabs {
		tree := o.Grads
		if key.kind == paramStorage {
			tree = o.params()[slices.Index(c.params, key.layout)]
		}
		p.ranges[st] = tree.Slab(st.slab)
	}
	for _, cmd := range c.commands {
		bound := boundCommand{command: cmd}
		for _, s := range cmd.bind {
			r := p.ranges[s.st]
			bound.ranges = append(bound.ranges, r.Buffer.Range(r.Offset+s.Offset, s.Bytes))
		}
		p.commands = append(p.commands, bound)
	}
	p.work = p.workOfCommands()
	for _, t := range c.targets {
		if t.Leaf != "" {
			continue
		}
		place := c.place(t.Value)
		if len(place.Parts) == 0 {
			continue
		}
		s := place.Parts[0].Span
		if len(place.Parts) > 1 && (s.st.kind == paramStorage || s.st.kind == gradStorage) {
			return fmt.Errorf("graph: compile: target %q: a param of %d row parts, want one", t.Name, len(place.Parts))
		}
		r := p.ranges[s.st]
		p.outputs[t.Name] = r.Buffer.Range(r.Offset+s.Offset, roundUp(typeBytes(place.Shape, place.DType), 4))
	}
	return nil
}

func (p *Program) buffer(label string, size uint64) (gpu.Range, error) {
	b, err := p.dev.NewBuffer("gputrain.graph."+p.label+"."+label, size)
	if err != nil {
		return gpu.Range{}, fmt.Errorf("graph: compile: %s: %w", label, err)
	}
	p.buffers = append(p.buffers, b)
	return b.All(), nil
}

// Record appends the program's dispatches to a recording, in profile groups named for the graph's labels, each of one operation.
func (p *Program) Record(rec *gpu.Recording) {
	group, operation := "", ""
	for i, cmd := range p.commands {
		if does := p.units[cmd.unit].operation(); i == 0 || cmd.group != group || does != operation {
			group, operation = cmd.group, does
			rec.GroupOf(operation, group)
		}
		if cmd.kernel == nil {
			rec.Zero(cmd.ranges[0])
			continue
		}
		rec.Expect(p.work[i])
		rec.Dispatch(cmd.kernel, cmd.grid, cmd.params, cmd.ranges...)
	}
}

// Plan is the memory the program took.
func (p *Program) Plan() Plan { return p.plan }

// Output is where a named target lies after the program has run; its zero value for a name that is no target, or one without elements.
func (p *Program) Output(name string) gpu.Range { return p.outputs[name] }

// WriteFloats sets an f32 input; it takes effect before the next submit.
func (p *Program) WriteFloats(name string, data []float32) error {
	in, err := p.checked(name, buffers.F32, len(data), data)
	if err != nil || len(data) == 0 {
		return err
	}
	return p.write(in)
}

// WriteInts sets an i32 input and everything derived from it.
func (p *Program) WriteInts(name string, data []int32) error {
	in, err := p.checked(name, buffers.I32, len(data), data)
	if err != nil || len(data) == 0 {
		return err
	}
	for _, check := range in.checks {
		if err := check.test(data); err != nil {
			return fmt.Errorf("graph: write: input %q: %w", name, err)
		}
	}
	for i := range in.derived {
		d := &in.derived[i]
		if d.scratch == nil {
			d.scratch = make([]byte, d.storage.bytes)
		}
		if err := d.derive(d.scratch[:d.bytes], data); err != nil {
			return fmt.Errorf("graph: write: input %q: %w", name, err)
		}
		if err := p.dev.Write(p.ranges[d.storage], d.scratch); err != nil {
			return fmt.Errorf("graph: write: input %q: %w", name, err)
		}
	}
	return p.write(in)
}

// WriteUints sets a u32 input.
func (p *Program) WriteUints(name string, data []uint32) error {
	in, err := p.checked(name, buffers.U32, len(data), data)
	if err != nil || len(data) == 0 {
		return err
	}
	return p.write(in)
}

// checked is an input of that type, with n numbers in its scratch.
func (p *Program) checked(name string, d buffers.DType, n int, numbers any) (*programInput, error) {
	in, ok := p.inputs[name]
	if !ok {
		return nil, fmt.Errorf("graph: write: input %q: not one of the program%s", name, suggest.DidYouMean(name, slices.Sorted(maps.Keys(p.inputs))))
	}
	if in.typ.DType != d || in.typ.Elements() != n {
		return nil, fmt.Errorf("graph: write: input %q: %d elements of %v, want %v", name, n, d, in.typ)
	}
	if in.scratch == nil {
		in.scratch = make([]byte, in.storage.bytes)
	}
	_, err := binary.Encode(in.scratch, binary.LittleEndian, numbers)
	return in, err
}

func (p *Program) write(in *programInput) error {
	if err := p.dev.Write(p.ranges[in.storage], in.scratch); err != nil {
		return fmt.Errorf("graph: write: input %q: %w", in.name, err)
	}
	return nil
}

// Inputs are the names and types of what must be written before the program runs.
func (p *Program) Inputs() map[string]graph.Type {
	types := map[string]graph.Type{}
	for name, in := range p.inputs {
		types[name] = in.typ
	}
	return types
}

// Release frees the program's buffers; what was recorded from it must not be submitted any more.
func (p *Program) Release() {
	if p == nil {
		return
	}
	for _, b := range p.buffers {
		b.Release()
	}
	p.buffers = nil
}
