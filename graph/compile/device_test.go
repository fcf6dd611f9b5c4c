package compile

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
)

// twin runs values of a graph on a device and by Eval, and holds them against each other.
type twin struct {
	graph      *graph.Graph
	feeds      map[string]*graph.Array
	values     []*graph.Value
	leaves     map[string]*graph.Value // leaf targets by path
	accumulate bool
	hardware   bool // compile the variants for hardware adapters
	buffers    int  // storage buffers of a kernel for the compiler to know of, where not 0
	registers  gpu.Registers
	matrix     gpu.MatrixUnits // for the compiler to know of, which the device need not have
}

// eps is the distance from 1 to the next f32.
const eps = 1.0 / (1 << 23)

// feed fills every input and param that has no feed yet with normal numbers.
func (w *twin) feed(rng *rand.Rand) {
	if w.feeds == nil {
		w.feeds = map[string]*graph.Array{}
	}
	for _, n := range w.graph.Nodes() {
		name := ""
		switch op := n.Op.(type) {
		case graph.Input:
			name = op.Name
		case graph.Param:
			name = op.Path
		default:
			continue
		}
		if w.feeds[name] != nil {
			continue
		}
		a := graph.NewArray(n.Outputs[0].Shape())
		for i := range a.Data {
			a.Data[i] = float64(float32(rng.NormFloat64()))
			if n.Outputs[0].DType() == buffers.U32 {
				a.Data[i] = float64(rng.Uint32())
			}
		}
		w.feeds[name] = a
	}
}

// run compiles, submits once and returns the outputs and leaves in the order of values, then leaves by path of params.
func (w *twin) run(t *testing.T, d *gpu.Device) (got map[string][]float64, p *Program) {
	t.Helper()
	ctx := context.Background()
	require.NoError(t, w.graph.Err())
	var params []buffers.Host
	for _, n := range w.graph.Nodes() {
		if op, ok := n.Op.(graph.Param); ok {
			params = append(params, buffers.Host{Path: op.Path, Shape: op.Shape, Data: f32Data(w.feeds[op.Path])})
		}
	}
	o := Options{Accumulate: w.accumulate}
	if len(params) > 0 {
		var err error
		o.Params, err = buffers.Upload(d, "params", params, buffers.F32)
		require.NoError(t, err)
		t.Cleanup(o.Params.Release)
		o.Grads, err = buffers.NewTree(d, "grads", o.Params.Layout(), buffers.F32)
		require.NoError(t, err)
		t.Cleanup(o.Grads.Release)
	}
	for i, v := range w.values {
		o.Targets = append(o.Targets, Target{Name: fmt.Sprintf("v%d", i), Value: v})
	}
	for path, v := range w.leaves {
		o.Targets = append(o.Targets, Target{Value: v, Leaf: path})
	}
	limits := limitsAs(d, d.Limits().Software && !w.hardware)
	if w.buffers > 0 {
		limits.StorageBuffers = w.buffers
	}
	if w.registers.Budget > 0 {
		limits.Registers = w.registers
	}
	if len(w.matrix.Shapes) > 0 {
		limits.Matrix = w.matrix
	}
	plan, err := PlanNarrow(t.Context(), w.graph, o.Targets, nil, nil, limits)
	require.NoError(t, err)
	before := d.Counters().LiveBytes
	p, err = newFor(ctx, d, w.graph, o, limits)
	require.NoError(t, err)
	t.Cleanup(p.Release)
	require.Equal(t, plan.Total(), d.Counters().LiveBytes-before, "planned and actual bytes")
	require.Equal(t, plan, p.Plan())
	for name, typ := range p.Inputs() {
		w.write(t, p, name, typ)
	}
	rec := d.Record("test")
	p.Record(rec)
	if plan.Dispatches > 0 {
		require.NoError(t, rec.Submit(ctx), rec.String())
	}
	got = map[string][]float64{}
	for i, v := range w.values {
		got[fmt.Sprintf("v%d", i)] = readRange(t, d, p.Output(fmt.Sprintf("v%d", i)), v.Type().Elements())
	}
	for path := range w.leaves {
		data, err := o.Grads.Read(ctx, path)
		require.NoError(t, err)
		got[path] = f64Data(data)
	}
	return got, p
}

func (w *twin) write(t *testing.T, p *Program, name string, typ graph.Type) {
	t.Helper()
	data := w.feeds[name].Data
	switch typ.DType {
	case buffers.F32:
		require.NoError(t, p.WriteFloats(name, f32Data(w.feeds[name])))
	case buffers.I32:
		ints := make([]int32, len(data))
		for i, v := range data {
			ints[i] = int32(v)
		}
		require.NoError(t, p.WriteInts(name, ints))
	case buffers.U32:
		uints := make([]uint32, len(data))
		for i, v := range data {
			uints[i] = uint32(v)
		}
		require.NoError(t, p.WriteUints(name, uints))
	}
}

// check compares every value with Eval: |got - want| <= tolerance * (1 + |want|).
func (w *twin) check(t *testing.T, d *gpu.Device, tolerance float64) *Program {
	t.Helper()
	got, p := w.run(t, d)
	var want []*graph.Value
	var names []string
	for i, v := range w.values {
		want, names = append(want, v), append(names, fmt.Sprintf("v%d", i))
	}
	for path, v := range w.leaves {
		want, names = append(want, v), append(names, path)
	}
	results, err := graph.Eval(w.graph, w.feeds, want...)
	require.NoError(t, err)
	for i, r := range results {
		requireClose(t, names[i], got[names[i]], r.Data, tolerance)
	}
	return p
}

// checkTwice is check, and two runs with the same bits.
func (w *twin) checkTwice(t *testing.T, d *gpu.Device, tolerance float64) {
	t.Helper()
	w.check(t, d, tolerance)
	first, _ := w.run(t, d)
	second, _ := w.run(t, d)
	require.Equal(t, first, second, "the same bits")
}

func requireClose(t *testing.T, name string, got, want []float64, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want), name)
	if i := farthest(got, want, tolerance); i >= 0 {
		require.Failf(t, "too far", "%s element %d of %d: %v, want %v, tolerance %g", name, i, len(want), got[i], want[i], tolerance)
	}
}

// farthest is the first element out of tolerance, -1 when there is none.
func farthest(got, want []float64, tolerance float64) int {
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*(1+math.Abs(want[i]))) {
			return i
		}
	}
	return -1
}

func readRange(t *testing.T, d *gpu.Device, r gpu.Range, n int) []float64 {
	t.Helper()
	if n == 0 {
		return []float64{}
	}
	raw := make([]byte, r.Bytes)
	require.NoError(t, d.Read(context.Background(), raw, r))
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return out
}

func f32Data(a *graph.Array) []float32 {
	out := make([]float32, len(a.Data))
	for i, v := range a.Data {
		out[i] = float32(v)
	}
	return out
}

func f64Data(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func TestComparatorRejectsOneElement(t *testing.T) {
	want := []float64{1, -2, 3}
	require.Equal(t, -1, farthest([]float64{1, -2, 3 + 1e-7}, want, 1e-6))
	require.Equal(t, 1, farthest([]float64{1, 2, 3}, want, 1e-6))
	require.Equal(t, 2, farthest([]float64{1, -2, math.NaN()}, want, 1e-6))
}
