package compile

import (
	"gputrain/buffers"
	"gputrain/graph"
)

func init() {
	always := func(*graph.Node) bool { return true }
	never := func(*graph.Node) bool { return false }
	Register(graph.Constant{}, Lowering{fuse: fuseConstant, cheap: always})
	Register(graph.Elementwise{}, Lowering{fuse: fuseElementwise, cheap: cheapFunction, repeats: true, Checks: elementwiseChecks})
	Register(graph.BroadcastTo{}, Lowering{fuse: fuseBroadcast, cheap: always, repeats: true})
	Register(graph.Transpose{}, Lowering{fuse: fuseTranspose, cheap: always})
	Register(graph.Slice{}, Lowering{fuse: fuseSlice, cheap: always})
	Register(graph.Pad{}, Lowering{fuse: fusePad, cheap: always})
	Register(graph.Concat{}, Lowering{fuse: fuseConcat, cheap: always})
	Register(graph.Dropout{}, Lowering{fuse: fuseDropout, cheap: never, Checks: dropoutChecks})
}

var elementwiseChecks = []Check{
	{Name: "elementwise functions", Tolerance: 16, Build: func(g *graph.Graph) []*graph.Value {
		a, b, c := checkedInput(g, "a", 5, 64), checkedInput(g, "b", 64), checkedInput(g, "c", 5, 1)
		var out []*graph.Value
		for _, fn := range graph.Functions() {
			args := []*graph.Value{a, b, c}[:graph.Elementwise{Fn: fn}.Operands()]
			switch fn {
			case "log", "sqrt", "rsqrt", "recip", "sqrt_grad", "rsqrt_grad", "recip_grad":
				args[0] = g.AddConst(g.Apply("square", a), 0.25)
			case "div":
				args = []*graph.Value{a, g.AddConst(g.Apply("square", b), 0.25)}
			case "pow_const", "pow_const_grad":
				out = append(out, g.Append(graph.Elementwise{Fn: fn, Arg: 3}, args...).Outputs[0])
				continue
			}
			out = append(out, g.Apply(fn, args...))
		}
		return out
	}},
	{Name: "elementwise moves", Tolerance: 2, Build: func(g *graph.Graph) []*graph.Value {
		a := checkedInput(g, "a", 6, 8, 12)
		return []*graph.Value{g.Transpose(a, 2, 0, 1), g.Slice(a, 2, 3, 5), g.Pad(a, 1, 2, 3), g.Concat(2, a, a), g.Pad(g.Slice(a, 0, 1, 3), 2, 4, 4)}
	}},
}

var dropoutChecks = []Check{
	{Name: "dropout", Tolerance: 2, Build: func(g *graph.Graph) []*graph.Value {
		key := g.Input("key", graph.Type{Shape: []int{2}, DType: buffers.U32})
		return []*graph.Value{g.Dropout(checkedInput(g, "a", 33, 64), key, 0.25, 1), g.Dropout(checkedInput(g, "b", 7, 5), key, 0.5, 2)}
	}},
}

func fuseConstant(_ *fused, n *graph.Node, _ []axis) *ir {
	return &ir{kind: irConst, arg: n.Op.(graph.Constant).Value}
}

func fuseElementwise(f *fused, n *graph.Node, m []axis) *ir {
	op := n.Op.(graph.Elementwise)
	var in []*ir
	for _, v := range n.Inputs {
		in = append(in, f.value(v, m[len(m)-len(v.Shape()):]))
	}
	return f.call(op.Fn, op.Arg, in...)
}

func cheapFunction(n *graph.Node) bool {
	switch n.Op.(graph.Elementwise).Fn {
	case "neg", "add", "sub", "mul", "scale", "add_const", "relu", "abs", "square", "max":
		return true
	}
	return false
}

func fuseBroadcast(f *fused, n *graph.Node, m []axis) *ir {
	v := n.Inputs[0]
	return f.value(v, m[len(m)-len(v.Shape()):])
}

func fuseTranspose(f *fused, n *graph.Node, m []axis) *ir {
	to := make([]axis, len(m))
	for i, p := range n.Op.(graph.Transpose).Perm {
		to[p] = m[i]
	}
	return f.value(n.Inputs[0], to)
}

func fuseSlice(f *fused, n *graph.Node, m []axis) *ir {
	op := n.Op.(graph.Slice)
	return f.value(n.Inputs[0], shifted(m, op.Axis, op.Start))
}

func fusePad(f *fused, n *graph.Node, m []axis) *ir {
	op := n.Op.(graph.Pad)
	return f.guarded(n.Inputs[0], shifted(m, op.Axis, -op.Before), op.Axis)
}

func fuseConcat(f *fused, n *graph.Node, m []axis) *ir {
	at := n.Op.(graph.Concat).Axis
	x, start := &ir{kind: irChoose}, 0
	for _, v := range n.Inputs {
		x.in = append(x.in, f.guarded(v, shifted(m, at, -start), at))
		start += v.Shape()[at]
	}
	return x
}

func fuseDropout(f *fused, n *graph.Node, m []axis) *ir {
	op := n.Op.(graph.Dropout)
	key := f.loadAt(f.c.In(n.Inputs[1]), &linear{coef: make([]int, len(f.domain))})
	key.load.value, key.load.raw = n.Inputs[1], true
	at := f.linearOf(n.Inputs[0].Shape(), onesFixed(n.Inputs[0].Shape(), m))
	at.inElements = true
	f.linears = append(f.linears, at)
	return &ir{kind: irDropout, fn: "dropout", arg: op.P, salt: op.Salt, load: key.load, index: at, in: []*ir{f.value(n.Inputs[0], m)}}
}
