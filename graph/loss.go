package graph

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// IgnoreLabel marks a position that does not count in the loss.
const IgnoreLabel = -100

// CrossEntropy takes logits [N,V] and labels [N] (i32, 0 to V-1 or IgnoreLabel) to the sum over the counted rows of
// lse - logits[label], and to lse [N], the logarithm of the sum of the exponentials of a row.
type CrossEntropy struct{}

func (CrossEntropy) Kind() string { return "cross_entropy" }

func (CrossEntropy) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2, 1); err != nil {
		return nil, err
	}
	n, err := labelled(in[0], "logits", in[1])
	return []Type{F32(), F32(n)}, err
}

// labelled checks a matrix and the labels of its rows.
func labelled(x *Value, what string, labels *Value) (n int, err error) {
	if len(x.Shape()) != 2 {
		return 0, fmt.Errorf("%s has shape %v, want 2 dimensions", what, x.Shape())
	}
	if err := wantDType("labels", labels, array.I32); err != nil {
		return 0, err
	}
	n = x.Shape()[0]
	return n, wantShape("labels", labels, n)
}

// FLOPs is 4 a logit.
func (CrossEntropy) FLOPs(n *Node) int64 { return 4 * int64(n.Inputs[0].typ.Elements()) }

// CrossEntropyGrad takes (logits, labels, lse, dloss []) to dlogits = dloss (exp(logits - lse) - 1 at the label), 0 in ignored rows.
type CrossEntropyGrad struct{}

func (CrossEntropyGrad) Kind() string { return "cross_entropy_grad" }

func (CrossEntropyGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 4, 1); err != nil {
		return nil, err
	}
	n, err := labelled(in[0], "logits", in[1])
	if err != nil {
		return nil, err
	}
	if err := wantShape("lse", in[2], n); err != nil {
		return nil, err
	}
	return []Type{in[0].typ}, wantShape("dloss", in[3])
}

// FLOPs is 3 a logit.
func (CrossEntropyGrad) FLOPs(n *Node) int64 { return 3 * int64(n.Inputs[0].typ.Elements()) }

// HeadLoss is the cross entropy of the logits z = x W^T, or with a Cap of Cap tanh(z/Cap), which it never holds whole: x [N,D], W [V,D], labels [N]
// to the sum over the counted rows, and lse [N]. With Each it is not summed: [N], 0 in ignored rows. BF16: W, z and its gradient are rounded to
// bfloat16 (see StoreBF16). F16: the operands of its products are rounded to f16 (see RoundProducts), and without BF16 z is.
//
// Smoothing e and ZLoss k make the loss of a row (1-e) (lse - z[label]) + e (lse - mean z) + k lse^2, the mean that of the whole row. With one of them, or with
// Figures, a third output [N,3] has of each counted row lse - z[label], lse^2, and 1 where no logit is greater than the label's and none before it is equal; of
// ignored rows 0. Entropy: the third output [N] has the entropy of the softmax of every row, which has no gradient.
type HeadLoss struct {
	Cap       float64 `json:"cap,omitempty"`
	Each      bool    `json:"each,omitempty"`
	BF16      bool    `json:"bf16,omitempty"`
	F16       bool    `json:"f16,omitempty"`
	Smoothing float64 `json:"smoothing,omitempty"`
	ZLoss     float64 `json:"z_loss,omitempty"`
	Figures   bool    `json:"figures,omitempty"`
	Entropy   bool    `json:"entropy,omitempty"`
}

// Tells is whether there is the output of figures.
func (o HeadLoss) Tells() bool { return o.Figures || o.Weighs() }

// Weighs is whether the loss is more than that of the labels.
func (o HeadLoss) Weighs() bool { return o.Smoothing != 0 || o.ZLoss != 0 }

func (HeadLoss) Kind() string { return "head_loss" }

func (o HeadLoss) Infer(in []*Value) ([]Type, error) {
	if err := cmp.Or(arity(in, 3, 2), o.validate()); err != nil {
		return nil, err
	}
	n, err := headInputs(in[0], in[1], in[2])
	out := []Type{F32(o.lossShape(n)...), F32(n)}
	switch {
	case o.Entropy && o.Tells():
		return nil, errors.New("head loss: found entropies and figures, wanted one of the two")
	case o.Entropy:
		out = append(out, F32(n))
	case o.Tells():
		out = append(out, F32(n, 3))
	}
	return out, err
}

// lossShape is that of the loss of n rows.
func (o HeadLoss) lossShape(n int) []int {
	if o.Each {
		return []int{n}
	}
	return []int{}
}

func (o HeadLoss) validate() error {
	if !(o.Cap >= 0) || math.IsInf(o.Cap, 0) {
		return fmt.Errorf("cap %g: want it finite and not negative", o.Cap)
	}
	if !(o.Smoothing >= 0 && o.Smoothing <= 1) {
		return fmt.Errorf("smoothing %g: want 0 to 1", o.Smoothing)
	}
	if !(o.ZLoss >= 0) || math.IsInf(o.ZLoss, 0) {
		return fmt.Errorf("z loss %g: want it finite and not negative", o.ZLoss)
	}
	return nil
}

func headInputs(x, w, labels *Value) (n int, err error) {
	if n, err = labelled(x, "x", labels); err != nil {
		return 0, err
	}
	if len(w.Shape()) != 2 || w.Shape()[1] != x.Shape()[1] {
		return 0, fmt.Errorf("weight has shape %v, want [vocab %d]", w.Shape(), x.Shape()[1])
	}
	return n, nil
}

// FLOPs is 2 N V D of the product and 4 a logit, 7 with entropies.
func (o HeadLoss) FLOPs(n *Node) int64 {
	each := int64(2*n.Inputs[0].Shape()[1] + 4)
	if o.Entropy {
		each += 3
	}
	return headLogits(n) * each
}

func headLogits(n *Node) int64 {
	return int64(n.Inputs[0].Shape()[0]) * int64(n.Inputs[1].Shape()[0])
}

// HeadLossGrad takes (x, W, labels, lse, dloss) of the HeadLoss of the same fields to dx [N,D] and dW [V,D]; dloss is [], or [N] with Each.
type HeadLossGrad HeadLoss

func (HeadLossGrad) Kind() string { return "head_loss_grad" }

func (o HeadLossGrad) Infer(in []*Value) ([]Type, error) {
	if err := cmp.Or(arity(in, 5, 2), HeadLoss(o).validate()); err != nil {
		return nil, err
	}
	n, err := headInputs(in[0], in[1], in[2])
	if err != nil {
		return nil, err
	}
	if err := wantShape("lse", in[3], n); err != nil {
		return nil, err
	}
	return []Type{in[0].typ, in[1].typ}, wantShape("dloss", in[4], HeadLoss(o).lossShape(n)...)
}

// FLOPs is 4 N V D of the two products and 3 a logit; the logits that are made again do not count.
func (HeadLossGrad) FLOPs(n *Node) int64 { return headLogits(n) * int64(4*n.Inputs[0].Shape()[1]+3) }

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

// stored is a as it lies in memory.
func (o HeadLoss) stored(a *Array) *Array {
	if o.BF16 {
		return roundBF16(a)
	}
	return o.multiplied(a)
}

// multiplied is an operand of a product as it is multiplied.
func (o HeadLoss) multiplied(a *Array) *Array { return MatMul{F16: o.F16}.rounded(a) }

// logits are those of x W^T.
func (o HeadLoss) logits(x, w *Array) *Array {
	n, d := Rows(x.Shape)
	v := w.Shape[0]
	logits := NewArray([]int{n, v})
	product(logits.Data, o.multiplied(x).Data, o.multiplied(o.stored(w)).Data, n, d, v, false, true)
	logits = o.stored(logits)
	if o.Cap > 0 {
		for i, z := range logits.Data {
			logits.Data[i] = o.Cap * math.Tanh(z/o.Cap)
		}
	}
	return logits
}

// Eval is the definition.
func (o HeadLoss) Eval(node *Node, in []*Array, e *Env) []*Array {
	logits := o.logits(in[0], in[1])
	out := CrossEntropy{}.Eval(node, []*Array{logits, in[2]}, e)
	if out != nil && o.Entropy {
		return append(out, entropies(logits, out[1].Data))
	}
	if out == nil || !o.Tells() {
		return out
	}
	loss, lse := out[0], out[1].Data
	n, v := Rows(logits.Shape)
	figures := NewArray([]int{n, 3})
	clear(loss.Data)
	for r := range n {
		if in[2].Data[r] == IgnoreLabel {
			continue
		}
		row, label := logits.Data[r*v:(r+1)*v], int(in[2].Data[r])
		told := figures.Data[3*r : 3*r+3]
		told[0], told[1] = lse[r]-row[label], lse[r]*lse[r]
		if best := slices.Max(row); row[label] == best && slices.Index(row, best) == label {
			told[2] = 1
		}
		uniform := 0.0
		for _, z := range row {
			uniform += (lse[r] - z) / float64(v)
		}
		loss.Data[r%len(loss.Data)] += (1-o.Smoothing)*told[0] + o.Smoothing*uniform + o.ZLoss*told[1]
	}
	return append(out, figures)
}

// entropies are those of the softmax of each row of logits.
func entropies(logits *Array, lse []float64) *Array {
	n, v := Rows(logits.Shape)
	out := NewArray([]int{n})
	for r := range n {
		for _, z := range logits.Data[r*v : (r+1)*v] {
			out.Data[r] += math.Exp(z-lse[r]) * (lse[r] - z)
		}
	}
	return out
}

// Eval is dx = dz W and dW = dz^T x, dz = dlogits (1 - (logits/Cap)^2) with a Cap.
func (o HeadLossGrad) Eval(node *Node, in []*Array, e *Env) []*Array {
	x, w := in[0], in[1]
	logits := HeadLoss(o).logits(x, w)
	d := CrossEntropyGrad{}.Eval(node, []*Array{logits, in[2], in[3], in[4]}, e)
	if d == nil {
		return nil
	}
	HeadLoss(o).addOptions(d[0], logits, in)
	if o.Cap > 0 {
		for i, l := range logits.Data {
			d[0].Data[i] *= 1 - l/o.Cap*(l/o.Cap)
		}
	}
	head := HeadLoss(o)
	d[0], w, x = head.multiplied(head.stored(d[0])), head.multiplied(head.stored(w)), head.multiplied(x)
	n, width := Rows(x.Shape)
	v := w.Shape[0]
	dx, dw := NewArray(x.Shape), NewArray(w.Shape)
	product(dx.Data, d[0].Data, w.Data, n, v, width, false, false)
	product(dw.Data, d[0].Data, x.Data, v, n, width, true, false)
	return []*Array{dx, dw}
}

// addOptions adds what Smoothing and ZLoss add to the gradient of logits: dloss (e ([label] - 1/V) + 2 k lse exp(z - lse)).
func (o HeadLoss) addOptions(d, logits *Array, in []*Array) {
	labels, lse, dlosses := in[2].Data, in[3].Data, in[4].Data
	n, v := Rows(logits.Shape)
	for r := range n {
		if labels[r] == IgnoreLabel {
			continue
		}
		dloss := dlosses[r%len(dlosses)]
		for i := r * v; i < (r+1)*v; i++ {
			d.Data[i] += dloss * (2*o.ZLoss*lse[r]*math.Exp(logits.Data[i]-lse[r]) - o.Smoothing/float64(v))
		}
		d.Data[r*v+int(labels[r])] += dloss * o.Smoothing
	}
}
