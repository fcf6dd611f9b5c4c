package graph

import (
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// Array is the value of a node in the reference evaluation: Data is row-major, integers are whole numbers.
type Array struct {
	Shape []int
	Data  []float64
}

// NewArray is zeros.
func NewArray(shape []int) *Array {
	return &Array{Shape: shape, Data: make([]float64, Elements(shape))}
}

// Env is what a node sees of the evaluation.
type Env struct {
	feeds map[string]*Array
	err   error
}

func (e *Env) fail(n *Node, format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("graph: evaluate: %v: %w", n, fmt.Errorf(format, args...))
	}
}

// Eval is the reference evaluation: the values of want in float64, every operation by its definition. feeds holds inputs by
// name and parameters by path; only what want depends on is evaluated and asked for.
func Eval(g *Graph, feeds map[string]*Array, want ...*Value) ([]*Array, error) {
	if g.err != nil {
		return nil, g.err
	}
	e := &Env{feeds: feeds}
	results := map[*Value]*Array{}
	for i, v := range want {
		if v == nil || v.node == nil {
			return nil, fmt.Errorf("graph: evaluate: value %d is missing", i)
		}
	}
	for _, n := range g.ancestors(want) {
		in := make([]*Array, len(n.Inputs))
		for i, v := range n.Inputs {
			in[i] = results[v]
		}
		out := n.Op.Eval(n, in, e)
		if e.err != nil {
			return nil, e.err
		}
		for i, v := range n.Outputs {
			if !slices.Equal(out[i].Shape, v.Shape()) || len(out[i].Data) != v.typ.Elements() {
				panic(fmt.Sprintf("graph: evaluate: %v: output %d has shape %v, want %v", n, i, out[i].Shape, v.Shape()))
			}
			if results[v] = out[i]; v.DType() == array.BF16 {
				results[v] = roundBF16(out[i])
			}
		}
	}
	out := make([]*Array, len(want))
	for i, v := range want {
		out[i] = results[v]
	}
	return out, nil
}

// ancestors are the nodes that values need, in order.
func (g *Graph) ancestors(values []*Value) []*Node {
	need := make([]bool, len(g.nodes))
	for _, v := range values {
		need[v.node.ID] = true
	}
	var nodes []*Node
	for _, n := range slices.Backward(g.nodes) {
		if need[n.ID] {
			nodes = append(nodes, n)
			for _, v := range n.Inputs {
				need[v.node.ID] = true
			}
		}
	}
	slices.Reverse(nodes)
	return nodes
}

// feed is the array given for an input or a parameter.
func (e *Env) feed(n *Node, name string) []*Array {
	a, want := e.feeds[name], n.Outputs[0].typ
	switch {
	case a == nil:
		e.fail(n, "no value given for it")
		return nil
	case !slices.Equal(a.Shape, want.Shape) || len(a.Data) != want.Elements():
		e.fail(n, "shape %v with %d elements given, want %v", a.Shape, len(a.Data), want.Shape)
		return nil
	}
	if want.DType == array.I32 || want.DType == array.U32 {
		for i, x := range a.Data {
			if x != math.Trunc(x) {
				e.fail(n, "element %d is %g, want %v", i, x, want.DType)
				return nil
			}
		}
	}
	return []*Array{a}
}

// strides are those of a row-major shape.
func strides(shape []int) []int {
	s := make([]int, len(shape))
	step := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = step
		step *= shape[i]
	}
	return s
}

// walk visits the elements of a shape in row-major order: i counts them, j is the sum of index times step over the axes.
func walk(shape, steps []int, visit func(i, j int)) {
	index := make([]int, len(shape))
	j := 0
	for i := range Elements(shape) {
		visit(i, j)
		for axis := len(shape) - 1; axis >= 0; axis-- {
			index[axis]++
			j += steps[axis]
			if index[axis] < shape[axis] {
				break
			}
			j -= index[axis] * steps[axis]
			index[axis] = 0
		}
	}
}

// expand is the data of a, repeated to shape under numpy's rules.
func expand(a *Array, shape []int) []float64 {
	if slices.Equal(a.Shape, shape) {
		return a.Data
	}
	from, steps := strides(a.Shape), make([]int, len(shape))
	for i := range a.Shape {
		if a.Shape[i] != 1 {
			steps[len(shape)-len(a.Shape)+i] = from[i]
		}
	}
	out := make([]float64, Elements(shape))
	walk(shape, steps, func(i, j int) { out[i] = a.Data[j] })
	return out
}
