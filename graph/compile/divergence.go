package compile

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.HeadDivergence{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { lowerDivergence(c, n, nil) }, Checks: divergenceChecks()})
	Register(graph.HeadDivergenceGrad{}, Lowering{Leaf: true, Lower: func(c *Compiler, n *graph.Node) { lowerDivergence(c, nil, n) }})
	pairLowerings = append(pairLowerings, pairLowering{
		forward: "head_divergence", gradient: "head_divergence_grad", leaf: true, lower: lowerDivergence,
		match: func(f, g *graph.Node) bool {
			k := len(f.Inputs)
			return graph.HeadDivergence(g.Op.(graph.HeadDivergenceGrad)) == f.Op.(graph.HeadDivergence) && slices.Equal(g.Inputs[:k], f.Inputs) && g.Inputs[k] == f.Outputs[1]
		},
	})
}

func divergenceChecks() (out []Check) {
	for _, beta := range []float64{0, 0.5, 1} {
		out = append(out, Check{Name: fmt.Sprintf("divergence of heads %g", beta), Tolerance: 2048, Below: 65, Build: func(g *graph.Graph) []*graph.Value {
			op := graph.HeadDivergence{Beta: beta, Temperature: 0.9}
			in := []*graph.Value{
				checkedInput(g, "x", 70, 16), checkedInput(g, "w", 65, 16), checkedInts(g, "labels", 70), checkedInput(g, "teacher_x", 70, 12), checkedInput(g, "teacher_w", 65, 12),
			}
			f := g.Append(op, in...)
			d := g.Append(graph.HeadDivergenceGrad(op), append(in, f.Outputs[1], checkedInput(g, "dloss"))...)
			return []*graph.Value{f.Outputs[0], f.Outputs[2], d.Outputs[0], d.Outputs[1]}
		}})
	}
	return out
}

// divergenceParams is Params of divergence.wgsl.
type divergenceParams struct {
	Rows, Columns, Stride, At, TeacherStride, TeacherAt, Column0, Row0, First, Last uint32
	Beta, Inverse, Cap, TeacherCap                                                  float32
}

// divergenceGradParams is Params of divergence_grad.wgsl.
type divergenceGradParams struct {
	Rows, Columns, Stride, At, TeacherStride, TeacherAt, Row0, Padded uint32
	Beta, Inverse, Cap, TeacherCap                                    float32
}

// divergenceListParams is Params of divergence_list.wgsl.
type divergenceListParams struct{ Rows, Columns, Stride, Column0, Row0, K uint32 }

// divergence is the divergence of two heads of one program, whose logits of a chunk of rows lie side by side.
type divergence struct {
	op                    graph.HeadDivergence
	student, teacher      head
	labels, carried, rows Span
	losses, figures       Span
	ids, listed, rest     Span
	inBoth                []bothRun
	teacherParts          []Part
}

// bothRun is a run of columns that lies in one part of each matrix.
type bothRun struct {
	column, columns  int
	student, teacher int // parts
}

// lowerDivergence lowers HeadDivergence, HeadDivergenceGrad, or both together with the logits made once; the node that is not there is nil.
func lowerDivergence(c *Compiler, forward, gradient *graph.Node) {
	node := forward
	if node == nil {
		node = gradient
	}
	d := divergence{}
	if op, ok := node.Op.(graph.HeadDivergence); ok {
		d.op = op
	} else {
		d.op = graph.HeadDivergence(node.Op.(graph.HeadDivergenceGrad))
	}
	in := node.Inputs
	d.student = head{x: c.In(in[0]), w: c.In(in[1]), op: graph.HeadLoss{Cap: d.op.Cap, F16: d.op.F16}, exact: true}
	h := &d.student
	h.n, h.d = h.x.Shape[0], h.x.Shape[1]
	checkIDs(c, in[2], "label", h.w.rows(), true)
	if h.x.elements() == 0 || h.w.elements() == 0 {
		c.emptyHead(*h, forward, gradient)
		return
	}
	d.makeRoom(c, node)
	d.labels = c.One(c.In(in[2]), "labels")
	if forward != nil {
		d.carried, d.losses = c.One(c.workspace("carried", h.n, 12), "carried"), c.One(c.workspace("losses", h.n), "losses")
		d.rows, d.figures = c.One(c.Out(forward.Outputs[1]), "rows"), c.One(c.Out(forward.Outputs[2]), "figures")
	} else {
		d.rows = c.One(c.In(in[len(in)-2]), "rows")
	}
	for row := 0; row < h.n; row += h.rows {
		chunk := run{start: row, length: min(h.rows, h.n-row)}
		for i := range h.w.Parts {
			h.product(c, chunk, i)
		}
		d.teach(c, chunk)
		if forward != nil {
			for _, statistics := range []bool{true, false} {
				for i := range d.inBoth {
					d.compare(c, chunk, i, statistics)
				}
			}
		}
		if gradient != nil {
			dloss := c.One(c.In(gradient.Inputs[len(gradient.Inputs)-1]), "dloss")
			for _, r := range d.inBoth {
				d.slopes(c, chunk, r, dloss)
			}
			for i := range h.w.Parts {
				h.spread(c, gradient, chunk, i)
			}
		}
	}
	if forward != nil {
		c.lossSum(h.n, d.losses, c.One(c.Out(forward.Outputs[0]), "loss"))
	}
}

// makeRoom takes the workspaces of both, as many rows of each, and finds what runs of columns they have in common.
func (d *divergence) makeRoom(c *Compiler, node *graph.Node) {
	h, t := &d.student, &d.teacher
	if d.op.Listed > 0 {
		d.teacherParts = h.w.Parts
		d.ids, d.listed, d.rest = c.One(c.In(node.Inputs[3]), "ids"), c.One(c.In(node.Inputs[4]), "log-probabilities"), c.One(c.In(node.Inputs[5]), "rest")
	} else {
		*t = head{x: c.In(node.Inputs[3]), w: c.In(node.Inputs[4]), op: graph.HeadLoss{Cap: d.op.TeacherCap, F16: d.op.F16}, exact: true}
		t.n, t.d, d.teacherParts = t.x.Shape[0], t.x.Shape[1], t.w.Parts
	}
	for _, p := range d.teacherParts {
		h.widest = max(h.widest, (p.Rows+3)/4*4)
	}
	h.makeRoom(c)
	h.inHalves(c, node)
	t.rows, t.block = h.rows, h.block
	for i, p := range d.teacherParts {
		stride := (p.Rows + 3) / 4 * 4
		t.strides, t.logits = append(t.strides, stride), append(t.logits, c.workspaceOf(buffers.F32, fmt.Sprintf("teacher.logits.%d", i), h.rows, stride))
	}
	for s, p := range h.w.Parts {
		for u, q := range d.teacherParts {
			from, to := max(p.Row, q.Row), min(p.Row+p.Rows, q.Row+q.Rows)
			if from < to {
				d.inBoth = append(d.inBoth, bothRun{column: from, columns: to - from, student: s, teacher: u})
			}
		}
	}
}

// teach makes the teacher's logits of a chunk, or the table of what is listed.
func (d *divergence) teach(c *Compiler, chunk run) {
	t := &d.teacher
	for i, p := range d.teacherParts {
		if d.op.Listed == 0 {
			t.product(c, chunk, i)
			continue
		}
		params := divergenceListParams{
			uint32(chunk.length), uint32(p.Rows), uint32(t.strides[i]), uint32(p.Row), uint32(chunk.start), uint32(d.op.Listed),
		}
		k := c.kernel("divergence_list", "", shaders.Variant{})
		c.Dispatch(k, gpu.Linear(uint64(chunk.length), 1, c.limits), params, d.ids, d.listed, t.logits[i].Parts[0].Span)
	}
}

// places are where a run begins in the rows of both.
func (d *divergence) places(r bothRun) (student, teacher uint32) {
	return uint32(r.column - d.student.w.Parts[r.student].Row), uint32(r.column - d.teacherParts[r.teacher].Row)
}

// compare is a pass over a run of columns.
func (d *divergence) compare(c *Compiler, chunk run, i int, statistics bool) {
	r := d.inBoth[i]
	p := divergenceParams{
		Rows: uint32(chunk.length), Columns: uint32(r.columns), Stride: uint32(d.student.strides[r.student]), TeacherStride: uint32(d.teacher.strides[r.teacher]),
		Column0: uint32(r.column), Row0: uint32(chunk.start),
		Beta: float32(d.op.Beta), Inverse: float32(1 / d.op.Temperature), Cap: float32(d.op.Cap), TeacherCap: float32(d.op.TeacherCap),
	}
	p.At, p.TeacherAt = d.places(r)
	if i == 0 {
		p.First = 1
	}
	if i == len(d.inBoth)-1 {
		p.Last = 1
	}
	group := !c.limits.Software
	grid, lanes := c.Linear(chunk.length), "64"
	if group {
		grid, lanes = gpu.Linear(uint64(chunk.length), 1, c.limits), "256"
	}
	k := c.kernel("divergence", "", shaders.Variant{
		Constants: map[string]string{"LANES": lanes},
		Flags:     map[string]bool{"GROUP": group, "LISTED": d.op.Listed > 0, "STATISTICS": statistics},
	})
	bind := []Span{d.student.logits[r.student].Parts[0].Span, d.teacher.logits[r.teacher].Parts[0].Span, d.labels, d.carried, d.rows}
	switch {
	case statistics:
		bind = append(bind, d.figures)
	case d.op.Listed > 0:
		bind = append(bind, d.losses, d.rest)
	default:
		bind = append(bind, d.losses)
	}
	c.Dispatch(k, grid, p, bind...)
}

// slopes turns the student's logits of a run to their gradient, in place, and the padding behind the last run of a part to 0.
func (d *divergence) slopes(c *Compiler, chunk run, r bothRun, dloss Span) {
	part, stride := d.student.w.Parts[r.student], d.student.strides[r.student]
	p := divergenceGradParams{
		Rows: uint32(chunk.length), Columns: uint32(r.columns), Stride: uint32(stride), TeacherStride: uint32(d.teacher.strides[r.teacher]),
		Row0: uint32(chunk.start), Padded: uint32(r.columns),
		Beta: float32(d.op.Beta), Inverse: float32(1 / d.op.Temperature), Cap: float32(d.op.Cap), TeacherCap: float32(d.op.TeacherCap),
	}
	p.At, p.TeacherAt = d.places(r)
	if r.column+r.columns == part.Row+part.Rows {
		p.Padded += uint32(stride - part.Rows)
	}
	logits := d.student.logits[r.student].Parts[0].Span
	c.taken[unitStorage{c.current, logits.st}] = true
	k := c.kernel("divergence_grad", "", shaders.Variant{Flags: map[string]bool{"LISTED": d.op.Listed > 0}})
	c.Dispatch(k, c.Linear(chunk.length*int(p.Padded)), p, d.labels, d.rows, dloss, d.teacher.logits[r.teacher].Parts[0].Span, logits)
}
