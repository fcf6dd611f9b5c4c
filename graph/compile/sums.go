package compile

import (
	"fmt"

	"gputrain/graph"
)

// The gradient of a bias is the sum of dy over its rows, and the gradient of the weight beside it, x^T dy, reads dy, too: on GPUs the workgroups that make the
// first rows of that product add up what they have of dy in workgroup memory, which spares a pass that reads it again. In products of f16 the sum is of what
// they multiply, dy rounded to f16; it is added up in f32 as the product is, slices of K in order.

var sumsChecks = []Check{
	// Whole tiles and edges of 32, 64 and 128 columns, rows in slices, a product whose sums go to a buffer of their own.
	{Name: "matmul sums", Tolerance: 4096, Build: func(g *graph.Graph) []*graph.Value {
		return append(append(summedRows(g, 70, 36, 44), summedRows(g, 1030, 132, 260)...), summedRows(g, 8, 516, 900)...)
	}},
	// Roundings to f16, which the sums of Eval do not know, are of 2^-11 of each element at most; a row that is missing is of more.
	{Name: "matmul f16 sums", Tolerance: 1 << 18, Build: func(g *graph.Graph) []*graph.Value {
		values := append(summedRows(g, 72, 40, 48), summedRows(g, 1030, 136, 264)...)
		g.RoundProducts()
		return values
	}},
}

// summedRows are x^T dy and the sum of dy over its rows.
func summedRows(g *graph.Graph, rows, width, columns int) []*graph.Value {
	x, dy := checkedInput(g, fmt.Sprint("x", rows), rows, width), checkedInput(g, fmt.Sprint("dy", rows), rows, columns)
	return []*graph.Value{g.MatMul(x, dy, true, false), g.Append(graph.Reduce{Fn: "sum", Axes: []int{0}}, dy).Outputs[0]}
}

// joinSums makes units of products x^T dy and the sums of dy over its rows, and notes their nodes.
func (c *Compiler) joinSums(joined map[*graph.Node]bool) {
	if c.limits.Software {
		return
	}
	for _, n := range c.live {
		op, ok := n.Op.(graph.MatMul)
		if !ok || !op.TransA || len(c.readers[n.Outputs[0]]) > 0 || !c.inOnePart(n.Outputs[0]) || !tiledProduct(c, n) {
			continue
		}
		g := productOf(n)
		if g.count > 1 || g.n%4 != 0 || uint64(g.m) > uint64(c.limits.Workgroups) {
			continue
		}
		r := c.sumOfRows(n.Inputs[1], g.k, g.n)
		if r == nil || joined[r] {
			continue
		}
		u := &unit{nodes: []*graph.Node{r, n}, reads: n.Inputs, writes: append(n.Outputs, r.Outputs...), key: n.ID}
		u.lower = func(c *Compiler) {
			sums := c.Out(r.Outputs[0])
			c.lowerProduct(n, nil, &sums)
		}
		joined[r], joined[n], c.summed[r] = true, true, n
		c.units = append(c.units, u)
	}
}

// sumOfRows is the node that adds up the rows of a value, or of what that reshapes; nil where there is none. Targets alone get what it makes, so that it may be
// computed with whatever reads the value.
func (c *Compiler) sumOfRows(v *graph.Value, rows, columns int) *graph.Node {
	for {
		if _, ok := v.Node().Op.(graph.Reshape); !ok {
			break
		}
		v = v.Node().Inputs[0]
	}
	for _, w := range append(c.reshaped[v], v) {
		for _, r := range c.readers[w] {
			op, ok := r.Op.(graph.Reduce)
			if !ok || op.Fn != "sum" || len(c.readers[r.Outputs[0]]) > 0 || !c.inOnePart(r.Outputs[0]) {
				continue
			}
			if groups := reducedGroups(w.Shape(), op.Axes); len(groups) == 1 && groups[0] == (reduction{outer: 1, length: rows, inner: columns}) {
				return r
			}
		}
	}
	return nil
}

// inOnePart is whether a result goes to one binding, of memory of its own or of a gradient leaf.
func (c *Compiler) inOnePart(v *graph.Value) bool {
	s := c.direct(v)
	return c.whole(v) && (s == nil || len(s.leaf.Parts) <= 1)
}
