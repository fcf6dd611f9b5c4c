package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.Convolution{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { c.convolve(n, n.Op.(graph.Convolution), false) }, Checks: convolutionChecks})
	Register(graph.ConvolutionGrad{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { c.convolve(n, graph.Convolution(n.Op.(graph.ConvolutionGrad)), true) }})
	Register(graph.ConvolutionTapsGrad{}, Lowering{Lower: lowerConvolutionTapsGrad, Leaf: true})
	Register(graph.CachedConvolution{}, Lowering{Lower: lowerCachedConvolution, InPlace: map[int]int{1: 0}})
}

var convolutionChecks = []Check{
	{Name: "convolution", Tolerance: 64, Given: map[string][]float64{"positions": checkedDocuments(2, 35)}, Build: func(g *graph.Graph) (out []*graph.Value) {
		for _, s := range [][2]int{{12, 3}, {5, 4}} {
			for _, documents := range []bool{false, true} {
				name := fmt.Sprint(s, documents)
				x, w, dy := checkedInput(g, "x"+name, 2, 35, s[0]), checkedInput(g, "w"+name, s[0], s[1]), checkedInput(g, "dy"+name, 2, 35, s[0])
				var rest []*graph.Value
				if documents {
					rest = []*graph.Value{checkedInts(g, "positions", 2, 35)}
				}
				op := graph.Convolution{Documents: documents}
				one := func(op graph.Op, in ...*graph.Value) *graph.Value {
					return g.Append(op, append(in, rest...)...).Outputs[0]
				}
				out = append(out, one(op, x, w), one(graph.ConvolutionGrad(op), dy, w), one(graph.ConvolutionTapsGrad{Taps: s[1], Documents: documents}, x, dy))
			}
		}
		return out
	}},
	{Name: "convolution with a cache", Tolerance: 64, Given: checkedPasses, Build: func(g *graph.Graph) (out []*graph.Value) {
		row, positions := checkedInts(g, "row", 1, 9), checkedInts(g, "positions", 1, 9)
		for _, s := range [][2]int{{12, 3}, {5, 4}} {
			name := fmt.Sprint(s)
			n := g.Append(graph.CachedConvolution{}, checkedInput(g, "cache"+name, 3, s[1]-1, s[0]), row, positions, checkedInput(g, "x"+name, 1, 9, s[0]), checkedInput(g, "w"+name, s[0], s[1]))
			out = append(out, n.Outputs...)
		}
		return out
	}},
}

// checkedPasses are tokens of rows in no order, idle ones between: row 2 begins, row 0 goes on.
var checkedPasses = map[string][]float64{"row": {2, -1, 0, 2, 0, 2, 0, -1, 2}, "positions": {1, 0, 9, 0, 7, 3, 8, 5, 2}}

// checkedDocuments are positions of documents of 1 token and more, some longer than a chunk.
func checkedDocuments(b, t int) (positions []float64) {
	for row := range b {
		for begin, length := 0, 1+row; begin < t; length += 7 {
			for i := range min(length, t-begin) {
				positions = append(positions, float64(i))
			}
			begin += length
		}
	}
	return positions
}

// tapped gives a variant what kernels of a convolution have in common.
func tapped(width, taps int) (v shaders.Variant, units int) {
	kind, units := rowElement(width)
	return shaders.Variant{Constants: map[string]string{"T": kind, "TAPS": strconv.Itoa(taps), "LAST": strconv.Itoa(taps - 1)}, Flags: map[string]bool{}}, units
}

// loadTaps is the text that loads the taps of an item of channels: those of four channels are as many vec4s, channel by channel.
func loadTaps(width, taps int) string {
	var lines []string
	line := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf("        let "+format+";", args...))
	}
	for j := range taps {
		if width%4 != 0 {
			line("tap_%d = w[channel * %du + %du]", j, taps, j)
			continue
		}
		line("w_%d = w[channel * %du + %du]", j, taps, j)
	}
	for j := range taps {
		if width%4 != 0 {
			break
		}
		var parts []string
		for c := range 4 {
			at := c*taps + j
			parts = append(parts, fmt.Sprintf("w_%d.%c", at/4, "xyzw"[at%4]))
		}
		line("tap_%d = vec4<f32>(%s)", j, strings.Join(parts, ", "))
	}
	return strings.Join(lines, "\n")
}

// documents are the positions of an operation over documents, which are checked; none without.
func (c *Compiler) documents(documents bool, positions []*graph.Value) []rowOperand {
	if !documents {
		return nil
	}
	t := positions[0].Shape()[1]
	c.check(positions[0], "documents", func(src []int32) error {
		for first := 0; first < len(src); first += t {
			if err := checkDocuments(src[first:first+t], first); err != nil {
				return err
			}
		}
		return nil
	})
	return c.rowOperands("positions", positions[0])
}

type convolutionParams struct{ Count, Width, T uint32 }

func (c *Compiler) convolve(n *graph.Node, op graph.Convolution, back bool) {
	shape, taps := n.Outputs[0].Shape(), n.Inputs[1].Shape()[1]
	if graph.Elements(shape) == 0 {
		return
	}
	v, units := tapped(shape[2], taps)
	v.Flags["DOCUMENTS"], v.Flags["BACK"], v.Constants["LOAD_TAPS"] = op.Documents, back, loadTaps(shape[2], taps)
	suffix := fmt.Sprintf("_%d", taps)
	if back {
		suffix += "_back"
	}
	k := c.kernel("convolution", suffix, v)
	w := rowOperand{tensor: c.In(n.Inputs[1]), whole: true, name: "w"}
	operands := slices.Concat(c.rowOperands("x", n.Inputs[0]), []rowOperand{w}, c.documents(op.Documents, n.Inputs[2:]), c.rowOperands("y", n.Outputs[0]))
	c.rowwise(operands, func(share func(int) int, spans []Span) {
		count := share(shape[0]) * shape[1] * units
		c.Dispatch(k, c.Linear(count), convolutionParams{uint32(count), uint32(units), uint32(shape[1])}, spans...)
	})
}

// tapsRun is how many rows an invocation adds up.
const tapsRun = 64

type tapsParams struct{ Width, T, Run, Runs, Count uint32 }

func lowerConvolutionTapsGrad(c *Compiler, n *graph.Node) {
	op, shape, out := n.Op.(graph.ConvolutionTapsGrad), n.Inputs[0].Shape(), c.Out(n.Outputs[0])
	if graph.Elements(shape) == 0 {
		if !out.Accumulate {
			c.zero(c.One(out, "result"))
		}
		return
	}
	v, units := tapped(shape[2], op.Taps)
	v.Flags["DOCUMENTS"], v.Flags["SCALAR"] = op.Documents, shape[2]%4 != 0
	k := c.kernel("convolution_taps", fmt.Sprintf("_%d", op.Taps), v)
	runs := (shape[1] + tapsRun - 1) / tapsRun
	partial := c.workspace("taps", shape[0], runs*shape[2]*op.Taps)
	operands := slices.Concat(c.rowOperands("operand", n.Inputs[:2]...), c.documents(op.Documents, n.Inputs[2:]), []rowOperand{{tensor: partial, name: "taps"}})
	c.rowwise(operands, func(share func(int) int, spans []Span) {
		count := share(shape[0]) * runs * units
		c.Dispatch(k, c.Linear(count), tapsParams{uint32(units), uint32(shape[1]), tapsRun, uint32(runs), uint32(count)}, spans...)
	})
	all := partial
	all.Shape = []int{shape[0] * runs, shape[2] * op.Taps}
	c.reduce(reduction{outer: 1, length: shape[0] * runs, inner: shape[2] * op.Taps}, []int{all.elements()}, plainLoad(all), out, 1)
}

// ordered are the tokens of a pass over rows, row by row in the order of their positions: see rows_in_order.wgsl.
func (c *Compiler) ordered(row, positions *graph.Value, rows int) Span {
	count := row.Type().Elements()
	c.check(row, fmt.Sprintf("row below %d", rows), func(src []int32) error { return knownRows(src, rows) })
	order := c.One(c.workspace("order", rows+1+count), "order")
	k := c.kernel("rows_in_order", "", shaders.Variant{})
	params := struct{ Count, Rows uint32 }{uint32(count), uint32(rows)}
	c.Dispatch(k, c.Linear(max(count, rows+1)), params, c.One(c.In(row), "row"), c.One(c.In(positions), "positions"), order)
	return order
}

// kept is a cache of a node, which is changed in place.
func (c *Compiler) kept(cache *graph.Value) Span {
	if c.inputOf(cache) == nil || len(c.readers[cache]) != 1 {
		c.fail("cache: want an Input that nothing else reads: it is changed in place")
		return Span{}
	}
	return c.One(c.In(cache), "cache")
}

func lowerCachedConvolution(c *Compiler, n *graph.Node) {
	shape, taps, rows := n.Outputs[0].Shape(), n.Inputs[4].Shape()[1], n.Inputs[0].Shape()[0]
	cache, out := c.kept(n.Inputs[0]), c.One(c.Out(n.Outputs[0]), "y")
	if c.err != nil || graph.Elements(shape) == 0 {
		return
	}
	order := c.ordered(n.Inputs[1], n.Inputs[2], rows)
	v, units := tapped(shape[2], taps)
	var shift []string
	for j := range taps - 1 {
		shift = append(shift, fmt.Sprintf("            seen_%d = seen_%d;", j, j+1))
	}
	delete(v.Constants, "TAPS")
	v.Constants["LOAD_TAPS"] = loadTaps(shape[2], taps)
	v.Constants["SHIFT"] = strings.Join(shift, "\n")
	c.zero(out) // of idle tokens
	k := c.kernel("convolution_cached", fmt.Sprintf("_%d", taps), v)
	x, w := c.One(c.In(n.Inputs[3]), "x"), c.One(c.In(n.Inputs[4]), "w")
	c.Dispatch(k, c.Linear(rows*units), struct{ Count, Width uint32 }{uint32(rows * units), uint32(units)}, order, x, w, cache, out)
}
