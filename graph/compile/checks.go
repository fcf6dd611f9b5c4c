package compile

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
)

// Check compares values that one kernel (or family of them) computes with Eval.
type Check struct {
	Name      string
	Tolerance float64              // of |got - want| / (1 + |want|), in rounding errors of f32: a multiple of 2^-23
	Below     int                  // I32 inputs hold numbers from 0 to below-1
	Given     map[string][]float64 // what these inputs hold
	// Judge is the error of an element of a value, in place of |got - want| / (1 + |want|), where several results are right; nil: none are.
	Judge func(feeds map[string]*graph.Array, value, element int, got []float32) float64
	Build func(g *graph.Graph) []*graph.Value
}

// Checks are the self-checks of all kernels of operations on one device: each against the float64 definition of its operation.
func Checks() []gpu.Check {
	var out []gpu.Check
	for _, kind := range slices.Sorted(maps.Keys(lowerings)) {
		for _, k := range lowerings[kind].Checks {
			out = append(out, gpu.Check{Name: "graph " + k.Name, Run: k.run})
		}
	}
	return append(out, keptChecks()...)
}

func (k Check) run(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
	g := graph.New()
	values := k.Build(g)
	feeds := k.feeds(g)
	var targets []Target
	for i, v := range values {
		targets = append(targets, Target{Name: fmt.Sprint(i), Value: v})
	}
	p, err := New(ctx, d, g, Options{Label: "check", Targets: targets})
	if err != nil {
		return gpu.Result{}, err
	}
	defer p.Release()
	result := gpu.Result{Tolerance: k.Tolerance / (1 << 23)}
	err = p.compare(ctx, g, feeds, values, &result, k.Judge, func(i, j int, got float32, want float64) string {
		return fmt.Sprintf("output %d element %d: %g, want %g", i, j, float64(got), want)
	})
	return result, err
}

// compare runs a program and compares its targets, "0", "1" and so on, with what Eval makes of values. The error of what is no number
// is NaN, and stays; judge, where it is not nil, gives errors, and say words the worst.
func (p *Program) compare(ctx context.Context, g *graph.Graph, feeds map[string]*graph.Array, values []*graph.Value, result *gpu.Result,
	judge func(feeds map[string]*graph.Array, value, element int, got []float32) float64, say func(i, j int, got float32, want float64) string,
) error {
	for name, typ := range p.Inputs() {
		if err := p.writeArray(name, typ.DType, feeds[name]); err != nil {
			return err
		}
	}
	rec := p.dev.Record("gputrain.graph.check")
	p.Record(rec)
	if err := rec.Submit(ctx); err != nil {
		return err
	}
	want, err := graph.Eval(g, feeds, values...)
	if err != nil {
		return err
	}
	for i := range values {
		at := p.Output(fmt.Sprint(i))
		raw := make([]byte, at.Bytes)
		if err := p.dev.Read(ctx, raw, at); err != nil {
			return err
		}
		got := array.Decoded(buffers.F32, raw)
		for j, w := range want[i].Data {
			e := math.Abs(float64(got[j])-w) / (1 + math.Abs(w))
			if judge != nil {
				e = judge(feeds, i, j, got)
			}
			if !(e <= result.MaxError) && !math.IsNaN(result.MaxError) {
				result.MaxError, result.Worst = e, say(i, j, got[j], w)
			}
		}
	}
	return nil
}

// feeds are the inputs of a check: normal numbers, integers below k.Below, the same on every run.
func (k Check) feeds(g *graph.Graph) map[string]*graph.Array {
	rng := rand.New(rand.NewPCG(1, 2))
	feeds := map[string]*graph.Array{}
	for _, n := range g.Nodes() {
		in, ok := n.Op.(graph.Input)
		if !ok {
			continue
		}
		a := graph.NewArray(in.Type.Shape)
		if given := k.Given[in.Name]; given != nil {
			a.Data, feeds[in.Name] = given, a
			continue
		}
		for i := range a.Data {
			switch in.Type.DType {
			case buffers.F32:
				a.Data[i] = float64(float32(rng.NormFloat64()))
			case buffers.BF16:
				a.Data[i] = float64(array.DecodeBF16(array.EncodeBF16(float32(rng.NormFloat64()))))
			case buffers.I32:
				a.Data[i] = float64(rng.IntN(k.Below))
			case buffers.U32:
				a.Data[i] = float64(rng.Uint32())
			}
		}
		feeds[in.Name] = a
	}
	return feeds
}

// writeArray sets an input of any type from whole or f32 numbers.
func (p *Program) writeArray(name string, d buffers.DType, a *graph.Array) error {
	switch d {
	case buffers.I32:
		return p.WriteInts(name, numbers[int32](a))
	case buffers.U32:
		return p.WriteUints(name, numbers[uint32](a))
	case buffers.BF16:
		var halves []uint16
		for _, v := range a.Data {
			halves = append(halves, array.EncodeBF16(float32(v)))
		}
		in, err := p.checked(name, d, len(halves), halves)
		if err != nil {
			return err
		}
		return p.write(in)
	}
	return p.WriteFloats(name, numbers[float32](a))
}

func numbers[T int32 | uint32 | float32](a *graph.Array) []T {
	out := make([]T, len(a.Data))
	for i, v := range a.Data {
		out[i] = T(v)
	}
	return out
}

// checkedInput and checkedInts are the inputs of checks.
func checkedInput(g *graph.Graph, name string, shape ...int) *graph.Value {
	return g.Input(name, graph.F32(shape...))
}

func checkedInts(g *graph.Graph, name string, shape ...int) *graph.Value {
	return g.Input(name, graph.Type{Shape: shape, DType: buffers.I32})
}
