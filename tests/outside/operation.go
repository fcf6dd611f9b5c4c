package main

import (
	"errors"

	"gputrain/graph"
	"gputrain/graph/compile"
)

// runningMean is an operation on x [.., T, D]: y[t] is the mean of x[0] to x[t]. Back is its gradient: the sum over s from t on of x[s]/(s+1).
type runningMean struct {
	Back bool `json:"back,omitempty"`
}

func init() {
	compile.Register(runningMean{}, compile.Lowering{Lower: lowerRunningMean, Checks: []compile.Check{
		{Name: "running_mean", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value {
			x, dy := g.Input("x", graph.F32(3, 9, 65)), g.Input("dy", graph.F32(3, 9, 65))
			return []*graph.Value{g.Append(runningMean{}, x).Outputs[0], g.Append(runningMean{Back: true}, dy).Outputs[0]}
		}},
	}})
}

func (runningMean) Kind() string { return "running_mean" }

func (runningMean) Infer(in []*graph.Value) ([]graph.Type, error) {
	if len(in) != 1 || len(in[0].Shape()) < 2 {
		return nil, errors.New("want one input of two dimensions or more")
	}
	return []graph.Type{in[0].Type()}, nil
}

func (runningMean) FLOPs(n *graph.Node) int64 { return 2 * int64(n.Outputs[0].Type().Elements()) }

func (o runningMean) Gradient(g *graph.Graph, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{g.Append(runningMean{Back: !o.Back}, dy[0]).Outputs[0]}
}

// columns are the sequences of x, their length, and the columns of each.
func columns(shape []int) (sequences, length, width int) {
	n := len(shape)
	return graph.Elements(shape[:n-2]), shape[n-2], shape[n-1]
}

func (o runningMean) Eval(_ *graph.Node, in []*graph.Array, _ *graph.Env) []*graph.Array {
	x, y := in[0], graph.NewArray(in[0].Shape)
	sequences, length, width := columns(x.Shape)
	for column := range sequences * width {
		first, sum := column/width*length*width+column%width, 0.0
		for i := range length {
			if o.Back {
				t := length - 1 - i
				sum += x.Data[first+t*width] / float64(t+1)
				y.Data[first+t*width] = sum
				continue
			}
			sum += x.Data[first+i*width]
			y.Data[first+i*width] = sum / float64(i+1)
		}
	}
	return []*graph.Array{y}
}

const runningMeanText = `
struct Params { columns: u32, length: u32, width: u32, back: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.columns) {
        let first = id.x / params.width * params.length * params.width + id.x % params.width;
        var sum = 0.0;
        for (var i = 0u; i < params.length; i++) {
            if (params.back == 1u) {
                let t = params.length - 1u - i;
                sum += x[first + t * params.width] / f32(t + 1u);
                y[first + t * params.width] = sum;
            } else {
                sum += x[first + i * params.width];
                y[first + i * params.width] = sum / f32(i + 1u);
            }
        }
    }
}`

func lowerRunningMean(c *compile.Compiler, n *graph.Node) {
	sequences, length, width := columns(n.Inputs[0].Shape())
	params := struct{ Columns, Length, Width, Back uint32 }{uint32(sequences * width), uint32(length), uint32(width), 0}
	if n.Op.(runningMean).Back {
		params.Back = 1
	}
	k := c.Kernel("running_mean", runningMeanText)
	c.Dispatch(k, c.Linear(sequences*width), params, c.One(c.In(n.Inputs[0]), "x"), c.One(c.Out(n.Outputs[0]), "y"))
}
