package compile

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
)

// Target is a value a program must produce.
type Target struct {
	Name  string // of a value without a Leaf, for Program.Output; optional otherwise
	Value *graph.Value
	Leaf  string // a path in the grads tree that receives the value; "" for a buffer of the program's own
}

// Options say where a program's params live and where its results go.
type Options struct {
	Label      string        // of the buffers; "program" when empty
	Params     *buffers.Tree // f32; may be nil for a graph without params
	Grads      *buffers.Tree // f32; may be nil when no target has a Leaf
	Targets    []Target
	Accumulate bool                  // leaf targets add to Grads instead of overwriting
	Beside     []*buffers.Tree       // of params not in Params: frozen ones, copies of another device's; nil is none
	Bind       map[string]gpu.Range  // f32 inputs and named targets that lie in buffers of the caller's, Type.Bytes long
	Arena      *Arena                // scratch shared with other programs; nil for buffers of the program's own
	Progress   func(done, total int) // of pipeline compilation; may be nil
}

// params are the trees of params that there are.
func (o Options) params() []*buffers.Tree {
	return buffers.Given(append([]*buffers.Tree{o.Params}, o.Beside...)...)
}

// New lowers what the targets need of a graph to a fixed list of dispatches over planned buffers, allocates those
// and compiles every kernel. Errors name the node or tensor at fault; gpu.LimitError when one does not fit a binding,
// gpu.ErrOutOfMemory from the allocation.
func New(ctx context.Context, dev *gpu.Device, g *graph.Graph, o Options) (*Program, error) {
	return newFor(ctx, dev, g, o, dev.Limits())
}

// newFor compiles the kernels' variants for an adapter of those limits, which the device keeps to.
func newFor(ctx context.Context, dev *gpu.Device, g *graph.Graph, o Options, lim gpu.Limits) (*Program, error) {
	c, err := newCompiler(g, o.Targets, lim)
	if err != nil {
		return nil, err
	}
	c.ctx, c.dev, c.materialize, c.accumulate = ctx, dev, !dev.Dry(), o.Accumulate
	c.bound = o.Bind
	for _, tree := range o.params() {
		c.params = append(c.params, tree.Layout())
		switch {
		case (tree.DType() == buffers.BF16 || tree.DType().Packed()) && tree != o.Params:
			c.narrow[tree.Layout()] = tree.DType()
		case tree.DType() != buffers.F32:
			return nil, fmt.Errorf("graph: compile: params: dtype %v, want f32", tree.DType())
		}
	}
	for _, tree := range o.params() {
		for _, leaf := range tree.Layout().Leaves() {
			if leaf.Table {
				c.tables[leaf.Path] = table{buffers.TableType(tree.DType()), func(dst []byte, rows []int32) error { return tree.Gather(leaf.Path, dst, rows) }}
			}
		}
	}
	if o.Grads != nil {
		c.grads = o.Grads.Layout()
		if o.Grads.DType() != buffers.F32 {
			return nil, fmt.Errorf("graph: compile: grads: dtype %v, want f32", o.Grads.DType())
		}
	}
	if err := c.run(); err != nil {
		return nil, err
	}
	return newProgram(ctx, c, o)
}

// Plan is the memory a program takes beyond its params and grads, in bytes.
type Plan struct {
	Inputs      uint64 // written by the host: inputs, what is derived from them, constant tables
	Activations uint64 // values, in buffers shared over time with workspace
	Workspace   uint64 // what workspaces add to that: the growth of the shared buffers over the plan without them
	Outputs     uint64 // named outputs
	Dispatches  int
	Shared      []uint64 // the buffers of Activations and Workspace, the largest first: what an Arena must have
}

// Total is the bytes of every buffer of the program.
func (p Plan) Total() uint64 { return p.Inputs + p.Activations + p.Workspace + p.Outputs }

// PlanNarrow is what New would take for these targets on a device with these limits, with the narrow params, by path, in trees of those types, but those in tables
// with the host, which hands out rows in the types that these say, and inputs and targets of the bound names left out; it needs no device. A value that fits a binding neither whole nor in parts is a gpu.LimitError naming it.
func PlanNarrow(ctx context.Context, g *graph.Graph, targets []Target, narrow, tables map[string]buffers.DType, lim gpu.Limits, bound ...string) (Plan, error) {
	c, err := newCompiler(g, targets, lim)
	if err != nil {
		return Plan{}, err
	}
	c.ctx = ctx
	c.bound = map[string]gpu.Range{}
	for _, name := range bound {
		c.bound[name] = gpu.Range{}
	}
	for path, d := range tables {
		c.tables[path] = table{rows: buffers.TableType(d)}
	}
	if c.grads, err = leafLayout(c.live, targets, lim); err != nil {
		return Plan{}, err
	}
	if err := c.narrowLayouts(narrow); err != nil {
		return Plan{}, err
	}
	c.params = append(c.params, c.grads)
	if err := c.run(); err != nil {
		return Plan{}, err
	}
	return c.plan, nil
}

// leafLayout lays out the params among nodes, and those whose gradients are wanted, as a tree of them alone would.
func leafLayout(nodes []*graph.Node, targets []Target, lim gpu.Limits) (*buffers.Layout, error) {
	var specs []buffers.Spec
	seen := map[string]bool{"": true}
	add := func(path string, shape []int) {
		if !seen[path] {
			seen[path] = true
			specs = append(specs, buffers.Spec{Path: path, Shape: shape})
		}
	}
	for _, n := range nodes {
		if p, ok := n.Op.(graph.Param); ok {
			add(p.Path, p.Shape)
		}
	}
	for _, t := range targets {
		add(t.Leaf, t.Value.Shape())
	}
	layout, err := buffers.NewLayout(specs, lim)
	if err != nil {
		return nil, fmt.Errorf("graph: plan: %w", err)
	}
	return layout, nil
}
