package compile_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/gputest"
)

// Cumsum is an operation of another program's: y[i] is the sum of x[0] to x[i] along the last axis, with Reverse of x[i] and all behind it.
type Cumsum struct {
	Reverse bool `json:"reverse,omitempty"`
}

func init() {
	compile.Register(Cumsum{}, compile.Lowering{Lower: lowerCumsum, Checks: []compile.Check{
		{Name: "cumsum", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value {
			x, dy := g.Input("x", graph.F32(5, 33)), g.Input("dy", graph.F32(5, 33))
			return []*graph.Value{g.Append(Cumsum{}, x).Outputs[0], g.Append(Cumsum{Reverse: true}, dy).Outputs[0]}
		}},
	}})
}

func (Cumsum) Kind() string { return "cumsum" }

func (Cumsum) Infer(in []*graph.Value) ([]graph.Type, error) {
	if len(in) != 1 || len(in[0].Shape()) == 0 {
		return nil, errors.New("want one input of one dimension or more")
	}
	return []graph.Type{in[0].Type()}, nil
}

func (Cumsum) FLOPs(n *graph.Node) int64 { return int64(n.Outputs[0].Type().Elements()) }

func (o Cumsum) Gradient(g *graph.Graph, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{g.Append(Cumsum{Reverse: !o.Reverse}, dy[0]).Outputs[0]}
}

func (o Cumsum) Eval(_ *graph.Node, in []*graph.Array, _ *graph.Env) []*graph.Array {
	y := graph.NewArray(in[0].Shape)
	_, width := graph.Rows(in[0].Shape)
	copy(y.Data, in[0].Data)
	for row := range slices.Chunk(y.Data, width) {
		if o.Reverse {
			slices.Reverse(row)
		}
		for i := range row[1:] {
			row[i+1] += row[i]
		}
		if o.Reverse {
			slices.Reverse(row)
		}
	}
	return []*graph.Array{y}
}

const cumsumText = `
struct Params { rows: u32, width: u32, reverse: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.rows) {
        var sum = 0.0;
        for (var i = 0u; i < params.width; i++) {
            let at = id.x * params.width + select(i, params.width - 1u - i, params.reverse == 1u);
            sum += x[at];
            y[at] = sum;
        }
    }
}`

func lowerCumsum(c *compile.Compiler, n *graph.Node) {
	rows, width := graph.Rows(n.Inputs[0].Shape())
	params := struct{ Rows, Width, Reverse uint32 }{Rows: uint32(rows), Width: uint32(width)}
	if n.Op.(Cumsum).Reverse {
		params.Reverse = 1
	}
	c.Dispatch(c.Kernel("cumsum", cumsumText), c.Linear(rows), params, c.One(c.In(n.Inputs[0]), "x"), c.One(c.Out(n.Outputs[0]), "y"))
}

// TestOperationOfAnotherProgram: an operation that this module does not know is differentiated, compiled and checked like its own.
func TestOperationOfAnotherProgram(t *testing.T) {
	g := graph.New()
	p := g.Param("p", 4, 7)
	y := g.Append(Cumsum{}, g.Apply("square", p)).Outputs[0]
	loss := g.Sum(g.Mul(y, g.Input("w", graph.F32(4, 7))))
	grads, err := graph.Gradients(g, loss, []*graph.Value{p})
	require.NoError(t, err)
	plan, err := compile.PlanNarrow(t.Context(), g, []compile.Target{{Name: "loss", Value: loss}, {Leaf: "p", Value: grads[0]}}, nil, nil, gpu.DefaultLimits())
	require.NoError(t, err)
	assert.Equal(t, 5, plan.Dispatches, "the square, the sum, the loss; the sum back, the gradient of the square")

	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		i := slices.IndexFunc(compile.Checks(), func(c gpu.Check) bool { return c.Name == "graph cumsum" })
		require.GreaterOrEqual(t, i, 0)
		r, err := compile.Checks()[i].Run(t.Context(), d)
		require.NoError(t, err)
		assert.LessOrEqual(t, r.MaxError, r.Tolerance, r.Worst)
	})
}

func TestRegisterRefuses(t *testing.T) {
	assert.Panics(t, func() { compile.Register(graph.MatMul{}, compile.Lowering{Lower: lowerCumsum}) }, "a second lowering")
	assert.Panics(t, func() { compile.Register(graph.Input{}, compile.Lowering{}) }, "no lowering")
}
