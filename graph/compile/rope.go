package compile

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() { Register(graph.Rope{}, Lowering{Lower: lowerRope, Checks: ropeChecks}) }

// Params of rope.wgsl.
type ropeParams struct{ Pairs, Half, Heads, Positions uint32 }

// partialRopeParams is Params where pairs do not fill a head.
type partialRopeParams struct {
	ropeParams
	Rest uint32
}

func lowerRope(c *Compiler, n *graph.Node) {
	op := n.Op.(graph.Rope)
	shape := n.Inputs[0].Shape()
	positions, half := shape[1], len(op.Angles())
	rest := op.HeadDim - 2*half
	suffix, t, unit := "", "f32", 1
	if half%4 == 0 && rest%4 == 0 {
		t, unit = "vec4<f32>", 4
	}
	if op.Inverse {
		suffix = "_inverse"
	}
	if rest > 0 {
		suffix += "_partial"
	}
	pairs := graph.Elements(shape) / op.HeadDim * ((half + rest) / unit)
	operands := c.rowOperands("x", n.Inputs[0])
	table := positions
	if op.Window > 0 {
		suffix, table = suffix+"_at", op.Window
		checkIDs(c, n.Inputs[1], "position", op.Window, false)
		operands = append(operands, c.rowOperands("positions", n.Inputs[1])...)
	}
	k := c.kernel("rope", suffix, shaders.Variant{
		Flags: map[string]bool{"INVERSE": op.Inverse, "POSITIONS": op.Window > 0, "PARTIAL": rest > 0}, Constants: map[string]string{"T": t},
	})
	operands = append(operands, rowOperand{tensor: c.ropeTable("cosines", table, op, math.Cos), whole: true, name: "cosines"},
		rowOperand{tensor: c.ropeTable("sines", table, op, math.Sin), whole: true, name: "sines"})
	c.rowwise(append(operands, c.rowOperands("y", n.Outputs[0])...), func(share func(int) int, spans []Span) {
		count := share(pairs)
		params := ropeParams{uint32(count), uint32(half / unit), uint32(shape[2] / op.HeadDim), uint32(positions)}
		if rest > 0 {
			c.Dispatch(k, c.Linear(count), partialRopeParams{params, uint32(rest / unit)}, spans...)
			return
		}
		c.Dispatch(k, c.Linear(count), params, spans...)
	})
}

var ropeChecks = []Check{
	{Name: "rope", Tolerance: 8, Below: 2000, Build: func(g *graph.Graph) []*graph.Value {
		a, positions := checkedInput(g, "a", 2, 9, 48), g.Input("positions", graph.Type{Shape: []int{2, 9}, DType: buffers.I32})
		partial := graph.Rope{HeadDim: 16, Frequencies: []float64{1, 0.2, 0.03, 0.001}, Factor: 1.3}
		return []*graph.Value{g.Append(partial, a).Outputs[0], g.Rope(a, 16, 10000), g.Append(graph.Rope{HeadDim: 12, Theta: 500, Inverse: true}, a).Outputs[0], g.RopeAt(a, positions, 16, 10000, 2000)}
	}},
}

// ropeTable is Factor f(t angle) over [positions, angles of a head], computed in float64: angles of thousands of radians
// are beyond what devices' own sines are good for.
func (c *Compiler) ropeTable(name string, positions int, op graph.Rope, f func(float64) float64) Tensor {
	angles, factor := op.Angles(), cmp.Or(op.Factor, 1)
	label := fmt.Sprintf("rope.%s.%d.%d.%g", name, positions, op.HeadDim, op.Theta)
	if len(op.Frequencies) > 0 || op.Factor != 0 {
		label = fmt.Sprintf("rope.%s.%d.%x", name, positions, sha256.Sum256(fmt.Append(nil, factor, angles)))
	}
	return c.constant(label, buffers.F32, []int{positions, len(angles)}, func() []byte {
		data := make([]byte, 0, 4*positions*len(angles))
		for t := range positions {
			for _, angle := range angles {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(factor*f(float64(t)*angle))))
			}
		}
		return data
	})
}
