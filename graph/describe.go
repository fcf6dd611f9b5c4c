package graph

import (
	"fmt"
	"reflect"
	"strings"

	"gputrain/buffers/array"
)

// Parameters are the parameters in the order of their first use.
func (g *Graph) Parameters() []array.Spec {
	var specs []array.Spec
	for _, n := range g.nodes {
		if p, ok := n.Op.(Param); ok {
			specs = append(specs, array.Spec{Path: p.Path, Shape: n.Outputs[0].Shape()})
		}
	}
	return specs
}

// FLOPs counts the floating point operations that the given values need, all nodes if none is given: FLOPs(loss) is the forward
// pass, and after Gradients FLOPs() is forward and backward.
func (g *Graph) FLOPs(values ...*Value) int64 {
	var total int64
	for _, n := range g.FLOPsByKind(values...) {
		total += n
	}
	return total
}

// FLOPsByKind is FLOPs by kind of operation, "matmul" for one; kinds without any are left out.
func (g *Graph) FLOPsByKind(values ...*Value) map[string]int64 {
	nodes := g.nodes
	if len(values) > 0 {
		nodes = g.ancestors(values)
	}
	out := map[string]int64{}
	for _, n := range nodes {
		if flops := n.FLOPs(); flops > 0 {
			out[n.Op.Kind()] += flops
		}
	}
	return out
}

// String is one line a node, with all that tells one graph from another:
//
//	%4 = matmul(%1, %3) trans_b=true : f32 [2 8 16] "h.0.mlp.c_fc"
func (g *Graph) String() string {
	var b strings.Builder
	for _, n := range g.nodes {
		fmt.Fprintf(&b, "%%%d = %s(", n.ID, n.Op.Kind())
		for i, v := range n.Inputs {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%%%d", v.node.ID)
			if v.index > 0 {
				fmt.Fprintf(&b, ".%d", v.index)
			}
		}
		b.WriteString(")" + attributes(n.Op) + " :")
		for i, v := range n.Outputs {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " %v", v.typ)
		}
		if n.Label != "" {
			fmt.Fprintf(&b, " %q", n.Label)
		}
		b.WriteString("\n")
	}
	if g.err != nil {
		fmt.Fprintf(&b, "error: %v\n", g.err)
	}
	return b.String()
}

// attributes are the fields of an operation that are not zero, except for those that the rest of the line tells.
func attributes(op Op) string {
	switch o := op.(type) {
	case Input, Param, Reshape, BroadcastTo:
		return ""
	case Constant:
		return fmt.Sprintf(" %g", o.Value)
	}
	out := ""
	v := reflect.ValueOf(op)
	if v.Kind() != reflect.Struct {
		return fmt.Sprintf(" %v", op)
	}
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out += fmt.Sprintf(" %s=%v", name, v.Field(i))
		}
	}
	return out
}
