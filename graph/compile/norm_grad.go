package compile

import (
	"slices"
	"strconv"

	"gputrain/gpu"
	"gputrain/graph"
)

func init() {
	lower := func(c *Compiler, n *graph.Node) { normGradient{node: n}.lower(c, nil) }
	finish := func(c *Compiler, n *graph.Node, e *epilogue) { normGradient{node: n}.lower(c, e) }
	Register(graph.LayerNormGrad{}, Lowering{Lower: lower, finishes: wholeRows, finish: finish})
	Register(graph.RMSNormGrad{}, Lowering{Lower: lower, finishes: wholeRows, finish: finish})
}

// normGradParams is Params of norm_grad.wgsl.
type normGradParams struct {
	rowNormParams
	Chunk, Before uint32
}

// rotatedNormGradParams is Params where the gradients of heads are turned.
type rotatedNormGradParams struct {
	normGradParams
	rotationParams
}

// wholeRows is whether the rows of a node's result consist of whole vec4, in one binding.
func wholeRows(c *Compiler, n *graph.Node) bool {
	rows, width := graph.Rows(n.Outputs[0].Shape())
	return rows > 0 && width%4 == 0 && c.allWhole(n)
}

// normGradient is the gradient of a norm by what it has read, and what is computed in its kernel: the gradients by the gain and by the shift, and the rotation
// that dy comes of; nil where they are not.
type normGradient struct{ node, gain, shift, rotation *graph.Node }

// The rows whose gradients of the gain one workgroup adds up: at least gainRows, so that its sums are small beside what it reads, and so many that there
// are no more than gainParts sums. A workgroup has gainLanes invocations, of which each keeps up to gainTurns sums: 32 registers.
const (
	gainRows  = 8
	gainParts = 1024
	gainLanes = 256
	gainTurns = 8
)

// turnsOf is how many items of a row an invocation has where it adds up the gain.
func turnsOf(items uint32) int { return (int(items) + gainLanes - 1) / gainLanes }

func (g normGradient) lower(c *Compiler, e *epilogue) {
	n := g.node
	count, width := graph.Rows(n.Inputs[0].Shape())
	_, rms := n.Op.(graph.RMSNormGrad)
	suffix, sums := "_layer", "vec2<f32>"
	if rms {
		suffix, sums = "_rms", "f32"
	}
	v, items := c.rowVariant(width)
	lanes := 64
	if v.Flags["GROUP"] {
		lanes = gainLanes
	}
	v.Constants["LANES"], v.Constants["SUMS"] = strconv.Itoa(lanes), sums
	v.Flags["RMS"], v.Flags["ROTATE"], v.Flags["GAIN"], v.Flags["SHIFT"] = rms, g.rotation != nil, g.gain != nil, g.shift != nil
	dy := n.Inputs[3]
	var tables []rowOperand
	var turn rotationParams
	if g.rotation != nil {
		dy = g.rotation.Inputs[0]
		var end string
		end, tables, turn = c.rotation(g.rotation, width, v)
		suffix += "_rope" + end
	}
	chunk, partials, gainAt := max(gainRows, (count+gainParts-1)/gainParts), Tensor{}, 0
	if g.gain != nil {
		of := width
		if suffix += "_gain"; g.shift != nil {
			of, suffix, gainAt = 2*width, suffix+"_shift", g.gainAt(c)
		}
		partials = c.workspace("partial", (count+chunk-1)/chunk, of)
		tables = append(tables, rowOperand{tensor: partials, whole: true, name: "partial"})
	}
	v.Constants["GAIN_AT"] = strconv.Itoa(gainAt)
	operands := slices.Concat(c.rowOperands("input", n.Inputs[0]), c.scales(n.Inputs[1]), c.rowOperands("input", n.Inputs[2], dy), tables)
	if e == nil {
		operands = append(operands, c.rowOperands("output", n.Outputs...)...)
	}
	from := 0
	c.rowwise(operands, func(share func(int) int, spans []Span) {
		rows := share(count)
		grid := c.rowGrid(rows)
		if v.Flags["GROUP"] {
			grid = gpu.Linear(uint64(rows), gainLanes/64, c.limits)
		}
		v.Constants["TURNS"] = strconv.Itoa(turnsOf(items))
		if g.gain != nil {
			grid = gpu.Linear(uint64((from+rows-1)/chunk-from/chunk+1), 1, c.limits)
		}
		last, spans := e.finish(c, v, spans...)
		params := any(normGradParams{rowNormParams{uint32(rows), items, float32(1 / float64(width))}, uint32(chunk), uint32(from)})
		from += rows
		if g.rotation != nil {
			params = rotatedNormGradParams{params.(normGradParams), turn}
		}
		c.Dispatch(c.kernel("norm_grad", suffix+last, v), grid, params, spans...)
	})
	if g.gain != nil && c.err == nil {
		g.addPartials(c, partials, width, gainAt)
	}
}

// addPartials adds up the partials of gain and shift: at once, where the results lie side by side, as leaves of whole 512 bytes do.
func (g normGradient) addPartials(c *Compiler, partials Tensor, width, gainAt int) {
	parts, columns := partials.Shape[0], partials.Shape[1]
	add := func(from, inner int, to Tensor) {
		build := func(f *fused) *ir { return f.loadAt(partials, &linear{coef: []int{columns, 1}, off: from}) }
		c.reduce(reduction{outer: 1, length: parts, inner: inner}, []int{parts, inner}, build, to, 1)
	}
	gain := c.Out(g.gain.Outputs[0])
	if g.shift == nil {
		add(0, width, gain)
		return
	}
	results := []Tensor{gain, c.Out(g.shift.Outputs[0])}
	if gainAt == 1 {
		slices.Reverse(results)
	}
	a, b, bytes := c.One(results[0], "partial"), c.One(results[1], "partial"), uint64(4*width)
	if a.st == b.st && a.Offset+bytes == b.Offset && results[0].Accumulate == results[1].Accumulate {
		add(0, columns, Tensor{
			Shape: []int{columns}, Accumulate: gain.Accumulate, Parts: []Part{{Rows: columns, Span: Span{st: a.st, Offset: a.Offset, Bytes: 2 * bytes}}},
		})
		return
	}
	add(0, width, results[0])
	add(width, width, results[1])
}

// gainAt is 1 where the gradient of the gain lies behind that of the shift, and so do its partials.
func (g normGradient) gainAt(c *Compiler) int {
	if gain, shift := c.Out(g.gain.Outputs[0]), c.Out(g.shift.Outputs[0]); c.One(gain, "gain").Offset > c.One(shift, "shift").Offset {
		return 1
	}
	return 0
}
