package compile

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() { Register(graph.Rope{}, Lowering{Lower: lowerRope, Checks: ropeChecks}) }

// rotationParams is what Params has for shared/rotate.wgsl: half of a head, in items, what a token has of what the kernel counts, and positions.
type rotationParams struct{ Half, PerToken, Positions uint32 }

// ropeParams is Params of rope.wgsl.
type ropeParams struct {
	Pairs uint32
	rotationParams
}

// partialRopeParams is Params where pairs do not fill a head.
type partialRopeParams struct {
	ropeParams
	Rest uint32
}

func lowerRope(c *Compiler, n *graph.Node) {
	op := n.Op.(graph.Rope)
	shape := n.Inputs[0].Shape()
	half := len(op.Angles())
	rest := op.HeadDim - 2*half
	t, unit := "f32", 1
	if half%4 == 0 && rest%4 == 0 {
		t, unit = "vec4<f32>", 4
	}
	pairs := graph.Elements(shape) / op.HeadDim * ((half + rest) / unit)
	v := shaders.Variant{Flags: map[string]bool{"PARTIAL": rest > 0}, Constants: map[string]string{"T": t}}
	suffix, tables, rotation := c.rotation(n, op.HeadDim, v)
	k := c.kernel("rope", suffix, v)
	c.rowwise(slices.Concat(c.rowOperands("x", n.Inputs[0]), tables, c.rowOperands("y", n.Outputs[0])), func(share func(int) int, spans []Span) {
		count := share(pairs)
		params := ropeParams{uint32(count), rotation}
		if rest > 0 {
			c.Dispatch(k, c.Linear(count), partialRopeParams{params, uint32(rest / unit)}, spans...)
			return
		}
		c.Dispatch(k, c.Linear(count), params, spans...)
	})
}

// rotation gives a variant, whose items are chosen, the rotation of a node for shared/rotate.wgsl, in a kernel that counts rows of a width. It returns the
// suffix of the kernel, and what it binds and has in its params for that.
func (c *Compiler) rotation(n *graph.Node, width int, v shaders.Variant) (suffix string, tables []rowOperand, p rotationParams) {
	op, shape := n.Op.(graph.Rope), n.Inputs[0].Shape()
	half, positions, unit := len(op.Angles()), shape[1], 1
	if v.Constants["T"] != "f32" {
		unit = 4
	}
	p = rotationParams{uint32(half / unit), uint32(shape[2] / width), uint32(positions)}
	v.Flags["INVERSE"], v.Flags["POSITIONS"] = op.Inverse, op.Window > 0
	if op.Inverse {
		suffix = "_inverse"
	}
	if 2*half < op.HeadDim {
		suffix += "_partial"
	}
	if op.Window > 0 {
		suffix, positions = suffix+"_at", op.Window
		checkIDs(c, n.Inputs[1], "position", op.Window, false)
		tables = c.rowOperands("positions", n.Inputs[1])
	}
	return suffix, append(tables, rowOperand{tensor: c.rotations(positions, op), whole: true, name: "rotations"}), p
}

var ropeChecks = []Check{
	{Name: "rope", Tolerance: 8, Below: 2000, Build: func(g *graph.Graph) []*graph.Value {
		a, positions := checkedInput(g, "a", 2, 9, 48), g.Input("positions", graph.Type{Shape: []int{2, 9}, DType: buffers.I32})
		partial := graph.Rope{HeadDim: 16, Frequencies: []float64{1, 0.2, 0.03, 0.001}, Factor: 1.3}
		growing := graph.Rope{HeadDim: 16, Theta: 100, Grow: 0.2, Every: 3}
		return []*graph.Value{g.Append(partial, a).Outputs[0], g.Append(growing, a).Outputs[0], g.Rope(a, 16, 10000), g.Append(graph.Rope{HeadDim: 12, Theta: 500, Inverse: true}, a).Outputs[0], g.RopeAt(a, positions, 16, 10000, 2000)}
	}},
}

// rotations are cos(t angle) and sin(t angle) times the position's factor, [positions, 2, angles of a head], computed in float64: angles of thousands of radians
// are beyond what devices' own sines are good for.
func (c *Compiler) rotations(positions int, op graph.Rope) Tensor {
	angles := op.Angles()
	label := fmt.Sprintf("rope.%d.%d.%g", positions, op.HeadDim, op.Theta)
	if len(op.Frequencies) > 0 || op.Factor != 0 || op.Grow != 0 {
		label = fmt.Sprintf("rope.%d.%x", positions, sha256.Sum256(fmt.Append(nil, op.Factor, op.Grow, op.Every, angles)))
	}
	return c.constant(label, buffers.F32, []int{positions, 2, len(angles)}, func() []byte {
		data := make([]byte, 0, 8*positions*len(angles))
		for t := range positions {
			factor := op.FactorAt(float64(t))
			for _, f := range []func(float64) float64{math.Cos, math.Sin} {
				for _, angle := range angles {
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(factor*f(float64(t)*angle))))
				}
			}
		}
		return data
	})
}
