package compile

import (
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

func lowerRope(c *Compiler, n *graph.Node) {
	op := n.Op.(graph.Rope)
	shape := n.Inputs[0].Shape()
	positions, half := shape[1], op.HeadDim/2
	suffix, t, items := "", "f32", half
	if half%4 == 0 {
		t, items = "vec4<f32>", half/4
	}
	if op.Inverse {
		suffix = "_inverse"
	}
	pairs := graph.Elements(shape) / op.HeadDim * items
	operands := c.rowOperands("x", n.Inputs[0])
	table := positions
	if op.Window > 0 {
		suffix, table = suffix+"_at", op.Window
		checkIDs(c, n.Inputs[1], "position", op.Window, false)
		operands = append(operands, c.rowOperands("positions", n.Inputs[1])...)
	}
	k := c.kernel("rope", suffix, shaders.Variant{
		Flags: map[string]bool{"INVERSE": op.Inverse, "POSITIONS": op.Window > 0}, Constants: map[string]string{"T": t},
	})
	operands = append(operands, rowOperand{tensor: c.ropeTable("cosines", table, op, math.Cos), whole: true, name: "cosines"},
		rowOperand{tensor: c.ropeTable("sines", table, op, math.Sin), whole: true, name: "sines"})
	c.rowwise(append(operands, c.rowOperands("y", n.Outputs[0])...), func(share func(int) int, spans []Span) {
		count := share(pairs)
		c.Dispatch(k, c.Linear(count), ropeParams{uint32(count), uint32(items), uint32(shape[2] / op.HeadDim), uint32(positions)}, spans...)
	})
}

var ropeChecks = []Check{
	{Name: "rope", Tolerance: 8, Below: 2000, Build: func(g *graph.Graph) []*graph.Value {
		a, positions := checkedInput(g, "a", 2, 9, 48), g.Input("positions", graph.Type{Shape: []int{2, 9}, DType: buffers.I32})
		return []*graph.Value{g.Rope(a, 16, 10000), g.Append(graph.Rope{HeadDim: 12, Theta: 500, Inverse: true}, a).Outputs[0], g.RopeAt(a, positions, 16, 10000, 2000)}
	}},
}

// ropeTable is f(t Theta^(-2i/HeadDim)) over [positions, HeadDim/2], computed in float64: angles of thousands of radians
// are beyond what devices' own sines are good for.
func (c *Compiler) ropeTable(name string, positions int, op graph.Rope, f func(float64) float64) Tensor {
	half := op.HeadDim / 2
	label := fmt.Sprintf("rope.%s.%d.%d.%g", name, positions, op.HeadDim, op.Theta)
	return c.constant(label, buffers.F32, []int{positions, half}, func() []byte {
		data := make([]byte, 0, 4*positions*half)
		for t := range positions {
			for i := range half {
				angle := float64(t) * math.Pow(op.Theta, -2*float64(i)/float64(op.HeadDim))
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(f(angle))))
			}
		}
		return data
	})
}
