package compile

import (
	"fmt"
	"math"
	"strings"

	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.Quantize{}, Lowering{Lower: lowerQuantize, Checks: quantizeChecks()})
}

func quantizeChecks() (out []Check) {
	for _, mode := range graph.QuantizeModes {
		out = append(out, Check{Name: "quantize " + mode, Tolerance: 8, Build: func(g *graph.Graph) []*graph.Value {
			var results []*graph.Value
			for _, shape := range [][]int{{70, 64}, {33, 70}, {5}} {
				op := graph.Quantize{Mode: mode}.Or()
				x := g.Input(fmt.Sprint("a", shape), graph.F32(shape...))
				results = append(results, g.Quantize(x, op))
				if op.Down = len(shape) == 2; op.Down && op.Format().OfGGUF() {
					results = append(results, g.Quantize(x, op))
				}
			}
			return results
		}})
	}
	return out
}

// Params of quantize.wgsl.
type quantizeParams struct{ Groups, Across, Width, Size uint32 }

func lowerQuantize(c *Compiler, n *graph.Node) {
	op, x := n.Op.(graph.Quantize), n.Inputs[0]
	count, width := graph.Rows(x.Shape())
	if count*width == 0 {
		return
	}
	if op.Format().OfGGUF() {
		lowerBlocks(c, n, count, width)
		return
	}
	operands := []Span{c.One(c.In(x), "x")}
	if op.Format().Scale.Mantissa > 0 {
		whole := c.workspace("largest", 1)
		c.reduce(reduction{outer: 1, length: count * width, inner: 1, maximum: true}, x.Shape(), func(f *fused) *ir {
			return f.call("abs", 0, f.value(x, f.identity()))
		}, whole, 1)
		operands = append(operands, c.One(whole, "largest"))
	}
	across := (width + op.Group - 1) / op.Group
	k := c.kernel("quantize", fmt.Sprintf("_%s%.0d", op.Mode, op.Bits), quantizeVariant(op))
	c.Dispatch(k, c.Linear(count*across), quantizeParams{uint32(count * across), uint32(across), uint32(width), uint32(op.Group)},
		append(operands, c.One(c.Out(n.Outputs[0]), "y"))...)
}

// Params of quantize_block.wgsl.
type quantizeBlockParams struct{ Groups, Across, Length, Size uint32 }

// lowerBlocks is for the blocks of GGUF files.
func lowerBlocks(c *Compiler, n *graph.Node, rows, columns int) {
	op := n.Op.(graph.Quantize)
	over, suffix := op.Format().Over, "_"+op.Mode
	length, lines := columns, rows
	if op.Down {
		length, lines, suffix = rows, columns, suffix+"_down"
	}
	var from []string
	for code := range int(max(0, -2*over-1)) { // the least that code + 1 is made of: the sum is rounded
		v := float32(code) + float32(over) + 0.5
		for least := v; least+float32(0.5-over) >= float32(code+1); least = math.Nextafter32(least, -1e9) {
			v = least
		}
		from = append(from, float32Text(float64(v)))
	}
	across := (length + op.Group - 1) / op.Group
	p := quantizeBlockParams{uint32(across * lines), uint32(across), uint32(length), uint32(op.Group)}
	if op.Down {
		p.Across = uint32(lines)
	}
	constant := float32Text(over)
	if over >= 0 {
		constant = fmt.Sprint(over)
	}
	k := c.kernel("quantize_block", suffix, shaders.Variant{
		Flags:     map[string]bool{"HALVES": over == 0, "SIGNED": over < 0, "DOWN": op.Down},
		Constants: map[string]string{"OVER": constant, "LEAST": strings.Join(from, ", ")},
	})
	c.Dispatch(k, c.Linear(across*lines), p, c.One(c.In(n.Inputs[0]), "x"), c.One(c.Out(n.Outputs[0]), "y"))
}

// quantizeVariant is the kernel of a mode.
func quantizeVariant(o graph.Quantize) shaders.Variant {
	f := o.Format()
	var levels, middles []string
	for i, level := range f.Levels {
		levels = append(levels, float32Text(float64(level)))
		if i > 0 {
			middles = append(middles, float32Text((float64(f.Levels[i-1])+float64(level))/2))
		}
	}
	return shaders.Variant{
		Flags: map[string]bool{"AFFINE": f.Bits == 0, "CODES": f.Levels != nil, "NVFP4": f.Scale.Mantissa > 0},
		Constants: map[string]string{
			"STEPS":  float32Text(float64(int(1)<<o.Bits - 1)),
			"LEVELS": strings.Join(levels, ", "), "MIDDLES": strings.Join(middles, ", "),
			"MANTISSA": fmt.Sprint(f.Float.Mantissa), "LEAST": fmt.Sprint(127 + f.Float.Least), "LARGEST": float32Text(f.Float.Largest),
			"TOP": fmt.Sprint(f.Float.Top()),
		},
	}
}
