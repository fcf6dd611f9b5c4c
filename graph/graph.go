package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers/array"
)

// Type is the shape and element type of a value. Shapes are row-major; [] is a scalar.
type Type struct {
	Shape []int
	DType array.DType
}

func (t Type) String() string { return fmt.Sprintf("%v %v", t.DType, t.Shape) }

func (t Type) equal(o Type) bool { return t.DType == o.DType && slices.Equal(t.Shape, o.Shape) }

// Elements is the product of the dimensions; 1 for a scalar.
func (t Type) Elements() int { return Elements(t.Shape) }

// Value is one output of a node. The value that a failed builder returns has no node: builders that get it do nothing,
// so that a whole model can be written down before Graph.Err is looked at.
type Value struct {
	node  *Node
	index int
	typ   Type
}

// Node is the node whose output v is, nil after an error.
func (v *Value) Node() *Node { return v.node }

// Index tells which output of its node v is.
func (v *Value) Index() int { return v.index }

// Type is the shape and element type of v.
func (v *Value) Type() Type { return v.typ }

// Shape is not to be written to.
func (v *Value) Shape() []int { return v.typ.Shape }

// DType is the element type of v.
func (v *Value) DType() array.DType { return v.typ.DType }

// Node is one operation in a graph. Its inputs have smaller IDs, so that the order of IDs is an order of evaluation.
type Node struct {
	ID      int
	Op      Op
	Inputs  []*Value
	Outputs []*Value
	Label   string // where in the model, "h.0.attn.c_attn"; in the backward pass "h.0.attn.c_attn/grad"
	Of      *Node  // in a backward pass: the node whose gradient needs this one; nil for sums of gradients, and in a forward pass
}

// String is the node's name in errors: its kind, and its label or else its number.
func (n *Node) String() string {
	name := n.Op.Kind()
	if e, ok := n.Op.(Elementwise); ok {
		name = e.Fn
	}
	if n.Label == "" {
		return fmt.Sprintf("%s #%d", name, n.ID)
	}
	return fmt.Sprintf("%s %q", name, n.Label)
}

// Op is an operation and its attributes. Operations are plain values (MatMul{TransB: true}), never pointers.
type Op interface {
	// Kind is the name of the operation in the text form and in errors.
	Kind() string
	// Infer gives the types of the outputs, or says which shapes or types do not fit.
	Infer(in []*Value) ([]Type, error)
	// Eval is the definition of the operation, in float64.
	Eval(n *Node, in []*Array, e *Env) []*Array
}

// Differentiable is an operation that has a gradient; those that only appear in backward passes have none.
type Differentiable interface {
	// Gradient adds the nodes that compute the gradient of the inputs from dy, the gradient of the outputs, and returns it
	// input by input. A nil in dy is zero; a nil returned is none. See gradient.go for what is asked of it.
	Gradient(g *Graph, n *Node, dy []*Value) []*Value
}

// Counted is an operation that computes; others hold or move numbers.
type Counted interface {
	// FLOPs counts additions, multiplications and function values of the mathematics, without recomputation.
	FLOPs(n *Node) int64
}

// FLOPs counts what the operation of a node computes.
func (n *Node) FLOPs() int64 {
	if c, ok := n.Op.(Counted); ok {
		return c.FLOPs(n)
	}
	return 0
}

// Executed counts what kernels execute for it: FLOPs, and what they compute again.
func (n *Node) Executed() int64 {
	if o, ok := n.Op.(interface{ Executed(*Node) int64 }); ok {
		return o.Executed(n)
	}
	return n.FLOPs()
}

// remade is what an operation implements that is made again wherever it is read, in every pass and every part of a cut model, rather than
// kept or handed on: a view, which costs nothing, or what takes as much memory as it saves work.
type remade interface{ Remade() }

// Remade tells whether the operation of a node has the method Remade.
func (n *Node) Remade() bool {
	_, ok := n.Op.(remade)
	return ok
}

// Base is the value behind what is made again wherever it is read, which a pass need not keep, nor hand on.
func (v *Value) Base() *Value {
	for v.node.Remade() {
		v = v.node.Inputs[0]
	}
	return v
}

// broadcasting is what an operation implements whose Gradient takes a dy that broadcasts to the shape of the output, and need not have it.
type broadcasting interface{ Broadcasting() }

// Graph is a list of nodes in an order of evaluation. It keeps the first error of the builders.
type Graph struct {
	nodes     []*Node
	scopes    []string
	override  string // the label of every new node, while a gradient is built
	origin    *Node  // Node.Of of every new node, likewise
	inputs    map[string]*Value
	params    map[string]*Value
	constants map[float64]*Value
	wanted    map[*Value]bool // during Gradients: the values that the gradient has to pass
	exact     []*Value        // see KeepF32
	err       error
}

// New is an empty graph.
func New() *Graph {
	return &Graph{inputs: map[string]*Value{}, params: map[string]*Value{}, constants: map[float64]*Value{}}
}

// Err is the first error of the builders; it names the node, what was found and what was wanted.
func (g *Graph) Err() error { return g.err }

// Nodes are in an order of evaluation; Nodes()[i].ID is i. The slice is not to be written to.
func (g *Graph) Nodes() []*Node { return g.nodes }

// Scope puts name in front of the labels of the nodes that follow, after the scopes already open, until the function that
// it returns is called.
func (g *Graph) Scope(name string) (end func()) {
	g.scopes = append(g.scopes, name)
	depth := len(g.scopes)
	return func() { g.scopes = g.scopes[:depth-1] }
}

// label is the open scope, or the folder of a parameter among the inputs: a product with h.0.mlp.c_fc.weight is at h.0.mlp.c_fc.
func (g *Graph) label(inputs []*Value) string {
	if g.override != "" {
		return g.override
	}
	scope := strings.Join(g.scopes, ".")
	for _, v := range inputs {
		if p, ok := v.node.Op.(Param); ok {
			dir := p.Path
			if i := strings.LastIndexByte(dir, '.'); i > 0 {
				dir = dir[:i]
			}
			if scope == "" || dir == scope || strings.HasPrefix(dir, scope+".") {
				return dir
			}
		}
	}
	return scope
}

// Append adds a node of any operation. On an error, of this call or an earlier one, its values have no node.
func (g *Graph) Append(op Op, inputs ...*Value) *Node {
	return g.addLabelled(op, "", inputs...)
}

func (g *Graph) addLabelled(op Op, label string, inputs ...*Value) *Node {
	poisoned := &Node{ID: -1, Op: op, Outputs: []*Value{{}, {}, {}}}
	for i, v := range inputs {
		if v == nil || v.node == nil {
			if g.err == nil {
				g.err = fmt.Errorf("graph: %s: input %d is missing", op.Kind(), i)
			}
			return poisoned
		}
		if v.node.ID >= len(g.nodes) || g.nodes[v.node.ID] != v.node {
			g.fail(fmt.Errorf("graph: %s: input %d (%v) is of another graph", op.Kind(), i, v.node))
			return poisoned
		}
	}
	if g.err != nil {
		return poisoned
	}
	n := &Node{ID: len(g.nodes), Op: op, Inputs: inputs, Label: label, Of: g.origin}
	if label == "" {
		n.Label = g.label(inputs)
	}
	types, err := op.Infer(inputs)
	for _, t := range types {
		if err == nil {
			err = checkShape(t.Shape)
		}
	}
	if err != nil {
		g.fail(fmt.Errorf("graph: %v: %w", n, err))
		return poisoned
	}
	for i, t := range types {
		n.Outputs = append(n.Outputs, &Value{node: n, index: i, typ: t})
	}
	g.nodes = append(g.nodes, n)
	g.index(n)
	return n
}

// index lets the builders find the leaves that exist.
func (g *Graph) index(n *Node) {
	switch op := n.Op.(type) {
	case Input:
		g.inputs[op.Name] = n.Outputs[0]
	case Param:
		g.params[op.Path] = n.Outputs[0]
	case Constant:
		g.constants[op.Value] = n.Outputs[0]
	}
}

// one adds a node of one output.
func (g *Graph) one(op Op, inputs ...*Value) *Value { return g.Append(op, inputs...).Outputs[0] }

func (g *Graph) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// wants tells whether a gradient for v is of use, while Gradients runs.
func (g *Graph) wants(v *Value) bool { return g.wanted[v] }

var errGradientOfGradient = errors.New("has no second derivative")

// noGradient refuses to differentiate what only appears in backward passes.
func (g *Graph) noGradient(n *Node) []*Value {
	g.fail(fmt.Errorf("graph: gradients: %v: %w", n, errGradientOfGradient))
	return make([]*Value, len(n.Inputs))
}
