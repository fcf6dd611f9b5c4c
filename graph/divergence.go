package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// HeadDivergence is the sum over the counted rows of a divergence of the distributions of a student and a teacher over the same vocabulary, whose logits it never
// holds whole, as HeadLoss does not: x [N,D], W [V,D], labels [N] and the teacher's x [N,E], W [V,E]. With s and t for the logarithms of softmax(logits/Temperature)
// of both, s' and t' for their exponentials, it is
//
//	Beta 0   KL(t|s) = sum t' (t - s)
//	Beta 1   KL(s|t) = sum s' (s - t)
//	between  Beta sum t' (t - log M) + (1-Beta) sum s' (s - log M), M = (1-Beta) s' + Beta t'
//
// Listed is how many tokens of each row the teacher is known by: instead of its x and W come ids and their t [N,Listed] and the t of all others together [N]. The
// sums then go over the listed tokens and one more category, the others, on both sides.
//
// The outputs are the sum, rows [N,4] for the gradient, and figures [N,3], 0 in ignored rows: -log p of the label at temperature 1, and its s and t (0 where Listed).
type HeadDivergence struct {
	Beta        float64 `json:"beta"`
	Temperature float64 `json:"temperature"`
	Cap         float64 `json:"cap,omitempty"`
	TeacherCap  float64 `json:"teacher_cap,omitempty"`
	Listed      int     `json:"listed,omitempty"`
	F16         bool    `json:"f16,omitempty"` // operands of products are rounded to f16; logits stay in f32
}

// HeadDivergenceGrad takes the inputs of the HeadDivergence of the same fields, its rows, and dloss [], to the student's dx [N,D] and dW [V,D]. The teacher has no
// gradient.
type HeadDivergenceGrad HeadDivergence

func (HeadDivergence) Kind() string     { return "head_divergence" }
func (HeadDivergenceGrad) Kind() string { return "head_divergence_grad" }

// inputs is how many there are.
func (o HeadDivergence) inputs() int {
	if o.Listed > 0 {
		return 6
	}
	return 5
}

func (o HeadDivergence) check(in []*Value) (n int, err error) {
	for _, limit := range []float64{o.Cap, o.TeacherCap} {
		if err := (HeadLoss{Cap: limit}).validate(); err != nil {
			return 0, err
		}
	}
	switch {
	case !(o.Beta >= 0 && o.Beta <= 1):
		return 0, fmt.Errorf("beta %g: want 0 to 1", o.Beta)
	case !(o.Temperature > 0) || math.IsInf(o.Temperature, 0):
		return 0, fmt.Errorf("temperature %g: want it finite and above 0", o.Temperature)
	}
	if n, err = headInputs(in[0], in[1], in[2]); err != nil {
		return 0, err
	}
	if o.Listed > 0 {
		return n, cmp.Or(wantShape("ids", in[3], n, o.Listed), wantShape("log-probabilities", in[4], n, o.Listed), wantShape("rest", in[5], n))
	}
	if _, err := headInputs(in[3], in[4], in[2]); err != nil {
		return 0, fmt.Errorf("teacher: %w", err)
	}
	if found, wanted := in[4].Shape()[0], in[1].Shape()[0]; found != wanted {
		return 0, fmt.Errorf("teacher: found a vocabulary of %d, wanted %d", found, wanted)
	}
	return n, nil
}

func (o HeadDivergence) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, o.inputs(), 2); err != nil {
		return nil, err
	}
	n, err := o.check(in)
	return []Type{F32(), F32(n, 4), F32(n, 3)}, err
}

func (o HeadDivergenceGrad) Infer(in []*Value) ([]Type, error) {
	k := HeadDivergence(o).inputs()
	if err := arity(in, k+2, 2); err != nil {
		return nil, err
	}
	n, err := HeadDivergence(o).check(in)
	if err != nil {
		return nil, err
	}
	return []Type{{in[0].Shape(), array.F32}, {in[1].Shape(), array.F32}}, cmp.Or(wantShape("rows", in[k], n, 4), wantShape("dloss", in[k+1]))
}

// FLOPs is 2 N V (D + E) of the products and 12 a logit.
func (o HeadDivergence) FLOPs(n *Node) int64 {
	width := n.Inputs[0].Shape()[1]
	if o.Listed == 0 {
		width += n.Inputs[3].Shape()[1]
	}
	return headLogits(n) * int64(2*width+12)
}

// FLOPs is 4 N V D of the two products and 6 a logit; the logits that are made again do not count.
func (HeadDivergenceGrad) FLOPs(n *Node) int64 {
	return headLogits(n) * int64(4*n.Inputs[0].Shape()[1]+6)
}

// Gradient is HeadDivergenceGrad.
func (o HeadDivergence) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	out := make([]*Value, len(n.Inputs))
	if !g.onlyFirst(n, dy) {
		return out
	}
	grad := g.Append(HeadDivergenceGrad(o), append(slices.Clone(n.Inputs), n.Outputs[1], dy[0])...)
	out[0], out[1] = grad.Outputs[0], grad.Outputs[1]
	return out
}

// logits are those of x W^T, capped, in full.
func (o HeadDivergence) logits(x, w *Array, limit float64) *Array {
	n, d := Rows(x.Shape)
	logits := NewArray([]int{n, w.Shape[0]})
	product(logits.Data, o.multiplied(x).Data, o.multiplied(w).Data, n, d, w.Shape[0], false, true)
	for i, z := range logits.Data {
		if limit > 0 {
			logits.Data[i] = limit * math.Tanh(z/limit)
		}
	}
	return logits
}

// multiplied is an operand of a product as it is multiplied.
func (o HeadDivergence) multiplied(a *Array) *Array { return MatMul{F16: o.F16}.rounded(a) }

// logs are log softmax(logits/temperature) of a row.
func logs(row []float64, temperature float64) []float64 {
	out := make([]float64, len(row))
	for i, z := range row {
		out[i] = z / temperature
	}
	lse := logSumExp(out)
	for i := range out {
		out[i] -= lse
	}
	return out
}

// compared are the categories of a row: the logarithms of their shares with student and teacher, and the category of each token.
func (o HeadDivergence) compared(s []float64, teacher []*Array, r int) (student, given []float64, category []int) {
	v := len(s)
	category = make([]int, v)
	if o.Listed == 0 {
		for i := range category {
			category[i] = i
		}
		return s, logs(teacher[0].Data[r*v:(r+1)*v], o.Temperature), category
	}
	for i := range category {
		category[i] = o.Listed
	}
	for i := range o.Listed {
		id := int(teacher[0].Data[r*o.Listed+i])
		category[id] = i
		student, given = append(student, s[id]), append(given, teacher[1].Data[r*o.Listed+i])
	}
	rest := []float64{}
	for i, c := range category {
		if c == o.Listed {
			rest = append(rest, s[i])
		}
	}
	if len(rest) == 0 {
		return append(student, math.Inf(-1)), append(given, math.Inf(-1)), category
	}
	return append(student, logSumExp(rest)), append(given, teacher[2].Data[r]), category
}

// times is p log q, 0 where p is.
func times(p, logq float64) float64 {
	if p == 0 {
		return 0
	}
	return p * logq
}

// of are the divergence of two distributions and what a category of the student weighs in its gradient: the slope of logit v is (s'_v/S'_c) times the slope of its
// category c, over the temperature.
func (o HeadDivergence) of(s, t []float64) (sum float64, slopes []float64) {
	slopes = make([]float64, len(s))
	inner := 0.0
	for i := range s {
		p, q := math.Exp(s[i]), math.Exp(t[i])
		switch o.Beta {
		case 0:
			sum += times(q, t[i]-s[i])
			slopes[i] = p - q
		case 1:
			sum += times(p, s[i]-t[i])
			slopes[i] = times(p, s[i]-t[i])
			inner += slopes[i]
		default:
			m := math.Log((1-o.Beta)*p + o.Beta*q)
			sum += o.Beta*times(q, t[i]-m) + (1-o.Beta)*times(p, s[i]-m)
			slopes[i] = (1 - o.Beta) * times(p, s[i]-m)
			inner += slopes[i]
		}
	}
	for i := range s {
		slopes[i] -= math.Exp(s[i]) * inner
	}
	return sum, slopes
}

// teachers are what a teacher is known by: logits, or what is listed.
func (o HeadDivergence) teachers(in []*Array) []*Array {
	if o.Listed > 0 {
		return in[3:6]
	}
	return []*Array{o.logits(in[3], in[4], o.TeacherCap)}
}

// Eval is the definition. Of rows it tells nothing: the gradient's makes all again.
func (o HeadDivergence) Eval(node *Node, in []*Array, e *Env) []*Array {
	logits, teacher := o.logits(in[0], in[1], o.Cap), o.teachers(in)
	n, v := Rows(logits.Shape)
	loss, rows, figures := NewArray(nil), NewArray([]int{n, 4}), NewArray([]int{n, 3})
	for r := range n {
		label := in[2].Data[r]
		if label == IgnoreLabel {
			continue
		}
		if !e.inRange(node, "label", r, label, v) {
			return nil
		}
		row := logits.Data[r*v : (r+1)*v]
		s := logs(row, o.Temperature)
		student, given, _ := o.compared(s, teacher, r)
		sum, _ := o.of(student, given)
		loss.Data[0] += sum
		figures.Data[3*r], figures.Data[3*r+1] = logSumExp(row)-row[int(label)], s[int(label)]
		if o.Listed == 0 {
			figures.Data[3*r+2] = given[int(label)]
		}
	}
	return []*Array{loss, rows, figures}
}

// Eval is the definition.
func (o HeadDivergenceGrad) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	op := HeadDivergence(o)
	x, w := in[0], in[1]
	logits, teacher, dloss := op.logits(x, w, op.Cap), op.teachers(in), in[len(in)-1].Data[0]
	n, v := Rows(logits.Shape)
	d := NewArray(logits.Shape)
	for r := range n {
		if in[2].Data[r] == IgnoreLabel {
			continue
		}
		row := logits.Data[r*v : (r+1)*v]
		s := logs(row, op.Temperature)
		student, given, category := op.compared(s, teacher, r)
		_, slopes := op.of(student, given)
		for i, c := range category {
			d.Data[r*v+i] = dloss * slopes[c] * math.Exp(s[i]-student[c]) / op.Temperature
			if op.Cap > 0 {
				d.Data[r*v+i] *= 1 - row[i]/op.Cap*(row[i]/op.Cap)
			}
		}
	}
	d, w, x = op.multiplied(d), op.multiplied(w), op.multiplied(x)
	_, width := Rows(x.Shape)
	dx, dw := NewArray(x.Shape), NewArray(w.Shape)
	product(dx.Data, d.Data, w.Data, n, v, width, false, false)
	product(dw.Data, d.Data, x.Data, v, n, width, true, false)
	return []*Array{dx, dw}
}
