package compile

import "gputrain/graph"

// A view is a value that lives in another value's storage: a reshape, or a slice along the first axis (not counting axes
// of length one before it) that starts at an aligned offset. Views cost nothing.

// viewed is the value that v is a view of, nil when v has memory of its own.
func (c *Compiler) viewed(v *graph.Value) *graph.Value {
	n := v.Node()
	if _, ok := n.Op.(graph.Reshape); ok {
		return n.Inputs[0]
	}
	if s, ok := n.Op.(graph.Slice); ok && c.alignedSlice(s, n.Inputs[0]) {
		return n.Inputs[0]
	}
	return nil
}

// root follows views to the value that owns the storage.
func (c *Compiler) root(v *graph.Value) *graph.Value {
	for {
		under := c.viewed(v)
		if under == nil {
			return v
		}
		v = under
	}
}

// alignedSlice is whether rows [Start, Start+Length) of x can be bound where they lie.
func (c *Compiler) alignedSlice(s graph.Slice, x *graph.Value) bool {
	shape := x.Shape()
	if graph.Elements(shape[:s.Axis]) != 1 {
		return false
	}
	return typeBytes(shape[s.Axis+1:], x.DType())*uint64(s.Start)%c.limits.StorageAlign == 0
}

// view is the tensor of a value that is a view.
func (c *Compiler) view(v *graph.Value) (Tensor, bool) {
	under := c.viewed(v)
	if under == nil {
		return Tensor{}, false
	}
	in := c.place(under)
	t := Tensor{Shape: v.Shape(), DType: v.DType()}
	if graph.Elements(t.Shape) == 0 {
		return t, true
	}
	s, isSlice := v.Node().Op.(graph.Slice)
	if !isSlice {
		for _, p := range in.Parts {
			row, rows := p.Row*t.rows(), p.Rows*t.rows()
			if row%in.rows() != 0 || rows%in.rows() != 0 {
				c.fail("reshape of %v split into %d row parts to %v: parts must have whole rows of both", in.Shape, len(in.Parts), t.Shape)
				return t, true
			}
			t.Parts = append(t.Parts, Part{Row: row / in.rows(), Rows: rows / in.rows(), Span: p.Span})
		}
		return t, true
	}
	rowBytes := typeBytes(in.Shape[s.Axis+1:], in.DType)
	if len(in.Parts) == 1 {
		from := in.Parts[0].Span.at(rowBytes*uint64(s.Start), rowBytes*uint64(s.Length))
		t.Parts = []Part{{Rows: t.rows(), Span: from}}
		return t, true
	}
	for _, p := range in.Parts { // the sliced axis is the first one: a param of several parts has longer rows than 1
		from, to := max(p.Row, s.Start), min(p.Row+p.Rows, s.Start+s.Length)
		if from >= to {
			continue
		}
		t.Parts = append(t.Parts, Part{
			Row: from - s.Start, Rows: to - from,
			Span: p.Span.at(rowBytes*uint64(from-p.Row), rowBytes*uint64(to-from)),
		})
	}
	return t, true
}

// inputOf is the program input behind a value that is an Input or a view of all of one.
func (c *Compiler) inputOf(v *graph.Value) *programInput {
	root := c.root(v)
	in, ok := root.Node().Op.(graph.Input)
	if !ok || graph.Elements(root.Shape()) != graph.Elements(v.Shape()) {
		return nil
	}
	return c.input(in.Name, root)
}
