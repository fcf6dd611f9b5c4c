package graph

import (
	"fmt"
	"math"
)

// onlyFirst tells whether nothing but the first output of n has a gradient; the other outputs are for the backward pass only, and a
// loss that depends on them fails.
func (g *Graph) onlyFirst(n *Node, dy []*Value) bool {
	for i, d := range dy[1:] {
		if d != nil {
			g.fail(fmt.Errorf("graph: gradients: %v: output %d has no gradient", n, i+1))
			return false
		}
	}
	return dy[0] != nil
}

// Gradient is CrossEntropyGrad for the logits.
func (CrossEntropy) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	if !g.onlyFirst(n, dy) {
		return make([]*Value, 2)
	}
	return []*Value{g.one(CrossEntropyGrad{}, n.Inputs[0], n.Inputs[1], n.Outputs[1], dy[0]), nil}
}

// Gradient is HeadLossGrad.
func (o HeadLoss) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	if !g.onlyFirst(n, dy) {
		return make([]*Value, 3)
	}
	grad := g.Append(HeadLossGrad(o), n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Outputs[1], dy[0])
	return []*Value{grad.Outputs[0], grad.Outputs[1], nil}
}

// Eval is the definition.
func (CrossEntropy) Eval(node *Node, in []*Array, e *Env) []*Array {
	logits, labels := in[0], in[1]
	n, v := Rows(logits.Shape)
	loss, lse := NewArray(node.Outputs[0].Shape()), NewArray([]int{n})
	for r := range n {
		row := logits.Data[r*v : (r+1)*v]
		lse.Data[r] = logSumExp(row)
		if labels.Data[r] == IgnoreLabel {
			continue
		}
		if !e.inRange(node, "label", r, labels.Data[r], v) {
			return nil
		}
		loss.Data[r%len(loss.Data)] += lse.Data[r] - row[int(labels.Data[r])]
	}
	return []*Array{loss, lse}
}

// Eval is the definition.
func (CrossEntropyGrad) Eval(node *Node, in []*Array, e *Env) []*Array {
	logits, labels, lse, dlosses := in[0], in[1], in[2], in[3].Data
	n, v := Rows(logits.Shape)
	d := NewArray(logits.Shape)
	for r := range n {
		if labels.Data[r] == IgnoreLabel {
			continue
		}
		if !e.inRange(node, "label", r, labels.Data[r], v) {
			return nil
		}
		dloss := dlosses[r%len(dlosses)] // one for all rows, or one each
		for i := r * v; i < (r+1)*v; i++ {
			d.Data[i] = dloss * math.Exp(logits.Data[i]-lse.Data[r])
		}
		d.Data[r*v+int(labels.Data[r])] -= dloss
	}
	return []*Array{d}
}

// logits are those of x W^T.
func (o HeadLoss) logits(x, w *Array) *Array {
	n, d := Rows(x.Shape)
	v := w.Shape[0]
	logits := NewArray([]int{n, v})
	product(logits.Data, x.Data, w.Data, n, d, v, false, true)
	if o.Cap > 0 {
		for i, z := range logits.Data {
			logits.Data[i] = o.Cap * math.Tanh(z/o.Cap)
		}
	}
	return logits
}

// Eval is the definition.
func (o HeadLoss) Eval(node *Node, in []*Array, e *Env) []*Array {
	return CrossEntropy{}.Eval(node, []*Array{o.logits(in[0], in[1]), in[2]}, e)
}

// Eval is dx = dz W and dW = dz^T x, dz = dlogits (1 - (logits/Cap)^2) with a Cap.
func (o HeadLossGrad) Eval(node *Node, in []*Array, e *Env) []*Array {
	x, w := in[0], in[1]
	logits := HeadLoss(o).logits(x, w)
	d := CrossEntropyGrad{}.Eval(node, []*Array{logits, in[2], in[3], in[4]}, e)
	if d == nil {
		return nil
	}
	if o.Cap > 0 {
		for i, l := range logits.Data {
			d[0].Data[i] *= 1 - l/o.Cap*(l/o.Cap)
		}
	}
	n, width := Rows(x.Shape)
	v := w.Shape[0]
	dx, dw := NewArray(x.Shape), NewArray(w.Shape)
	product(dx.Data, d[0].Data, w.Data, n, v, width, false, false)
	product(dw.Data, d[0].Data, x.Data, v, n, width, true, false)
	return []*Array{dx, dw}
}
