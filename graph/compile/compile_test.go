package compile

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

var update = flag.Bool("update", false, "write the golden recordings anew")

// commandText lowers targets without a device and lists the commands with their planned buffers.
func commandText(t *testing.T, g *graph.Graph, targets []Target, lim gpu.Limits) string {
	t.Helper()
	lim.Software = true
	c, err := newCompiler(g, targets, lim)
	require.NoError(t, err)
	c.grads, err = leafLayout(c.live, nil, lim)
	require.NoError(t, err)
	c.params = []*buffers.Layout{c.grads}
	require.NoError(t, c.run())
	var lines []string
	for _, cmd := range c.commands {
		lines = append(lines, cmd.String())
	}
	for i, size := range c.planned {
		lines = append(lines, fmt.Sprintf("buffer %d: %d", i, size))
	}
	return strings.Join(lines, "\n") + "\n"
}

// requireGolden compares text with testdata/name; go test -update writes it.
func requireGolden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// block is the feed-forward half of a transformer block and a squared loss.
func block(rows, width int) (g *graph.Graph, targets []Target) {
	g = graph.New()
	in := x(g, "x", rows, width)
	end := g.Scope("h.0.ln")
	h := g.LayerNorm(in, g.Param("h.0.ln.weight", width), g.Param("h.0.ln.bias", width), 1e-5)
	end()
	end = g.Scope("h.0.mlp")
	h = g.Add(g.MatMul(h, g.Param("h.0.mlp.up.weight", width, 4*width), false, false), g.Param("h.0.mlp.up.bias", 4*width))
	h = g.Apply("gelu_tanh", h)
	h = g.Add(g.MatMul(h, g.Param("h.0.mlp.down.weight", 4*width, width), false, false), g.Param("h.0.mlp.down.bias", width))
	h = g.Add(h, in)
	end()
	loss := g.Mul(g.Sum(g.Apply("square", g.Sub(h, x(g, "y", rows, width)))), x(g, "loss_scale"))
	targets = []Target{{Name: "loss", Value: loss}}
	return g, append(targets, leafTargets(g, loss)...)
}

// leafTargets are the gradients of a loss with respect to every param.
func leafTargets(g *graph.Graph, loss *graph.Value) []Target {
	var wrt []*graph.Value
	var targets []Target
	for _, n := range g.Nodes() {
		if op, ok := n.Op.(graph.Param); ok {
			wrt = append(wrt, n.Outputs[0])
			targets = append(targets, Target{Leaf: op.Path})
		}
	}
	grads, err := graph.Gradients(g, loss, wrt)
	if err != nil {
		panic(err)
	}
	for i := range targets {
		targets[i].Value = grads[i]
	}
	return targets
}

func TestRecordingOfABlock(t *testing.T) {
	g, targets := block(32, 16)
	requireGolden(t, "block.txt", commandText(t, g, targets, gpu.DefaultLimits()))
}

// TestTiedWeight: both gradients of a param used twice land in its leaf, the second added, without memory or an addition of
// their own.
func TestTiedWeight(t *testing.T) {
	build := func() (*graph.Graph, *graph.Value) {
		g := graph.New()
		w := g.Param("w.weight", 8, 8)
		return g, g.Sum(g.Apply("tanh", g.MatMul(g.Apply("tanh", g.MatMul(x(g, "x", 4, 8), w, false, false)), w, false, false)))
	}
	g, loss := build()
	targets := leafTargets(g, loss)
	text := commandText(t, g, targets, gpu.DefaultLimits())
	require.Equal(t, 2, strings.Count(text, ">grads.0"), text)
	require.NotContains(t, text, "_add", text)
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		w := &twin{graph: g, leaves: map[string]*graph.Value{"w.weight": targets[0].Value}}
		w.feed(rand.New(rand.NewPCG(4, 4)))
		w.check(t, d, 100*eps)
	})
}

// TestAccumulate runs a program twice that adds to its leaves, one of them delivered by a copy, and one that another
// value reads.
func TestAccumulate(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		ctx := context.Background()
		g := graph.New()
		p, q, in := g.Param("p", 5, 3), g.Param("q", 3), x(g, "x", 5, 3)
		both := g.Mul(p, in) // a leaf's value that something else reads
		sum := g.Sum(both, 0)
		feeds := map[string]*graph.Array{}
		w := &twin{graph: g, feeds: feeds}
		w.feed(rand.New(rand.NewPCG(5, 5)))
		params, err := buffers.Upload(d, "params", []buffers.Host{
			{Path: "p", Shape: p.Shape(), Data: f32Data(feeds["p"])},
			{Path: "q", Shape: q.Shape(), Data: f32Data(feeds["q"])},
		}, buffers.F32)
		require.NoError(t, err)
		defer params.Release()
		grads, err := buffers.NewTree(d, "grads", params.Layout(), buffers.F32)
		require.NoError(t, err)
		defer grads.Release()
		program, err := New(ctx, d, g, Options{
			Params: params, Grads: grads, Accumulate: true,
			Targets: []Target{{Leaf: "p", Value: both}, {Leaf: "q", Value: sum}, {Name: "x", Value: in}},
		})
		require.NoError(t, err)
		defer program.Release()
		require.NoError(t, program.WriteFloats("x", f32Data(feeds["x"])))
		rec := d.Record("twice")
		program.Record(rec)
		program.Record(rec)
		require.NoError(t, rec.Submit(ctx))
		want, err := graph.Eval(g, feeds, both, sum)
		require.NoError(t, err)
		for i, path := range []string{"p", "q"} {
			got, err := grads.Read(ctx, path)
			require.NoError(t, err)
			for j := range want[i].Data {
				want[i].Data[j] *= 2
			}
			requireClose(t, path, f64Data(got), want[i].Data, 8*eps)
		}
		padding := readRange(t, d, grads.Slab(0), grads.Layout().Slabs()[0])
		require.Zero(t, padding[15], "the padding of a leaf stays zero")
	})
}

// TestNothingIsCreatedBySteps: after a program has been made, steps only write, submit and read.
func TestNothingIsCreatedBySteps(t *testing.T) {
	d := gputest.Device(t)
	ctx := context.Background()
	g, targets := block(8, 8)
	w := &twin{graph: g}
	w.feed(rand.New(rand.NewPCG(6, 6)))
	var hosts []buffers.Host
	for _, n := range g.Nodes() {
		if op, ok := n.Op.(graph.Param); ok {
			hosts = append(hosts, buffers.Host{Path: op.Path, Shape: op.Shape, Data: f32Data(w.feeds[op.Path])})
		}
	}
	params, err := buffers.Upload(d, "params", hosts, buffers.F32)
	require.NoError(t, err)
	defer params.Release()
	grads, err := buffers.NewTree(d, "grads", params.Layout(), buffers.F32)
	require.NoError(t, err)
	defer grads.Release()
	p, err := New(ctx, d, g, Options{Params: params, Grads: grads, Targets: targets})
	require.NoError(t, err)
	defer p.Release()
	rec := d.Record("step")
	p.Record(rec)
	step, err := rec.Program(ctx)
	require.NoError(t, err)
	defer step.Release()
	require.Equal(t, p.Plan().Dispatches, step.Dispatches())
	run := func() []float64 {
		for name, typ := range p.Inputs() {
			w.write(t, p, name, typ)
		}
		require.NoError(t, step.Submit(ctx))
		return readRange(t, d, p.Output("loss"), 1)
	}
	first := run()
	before := d.Counters()
	second := run()
	after := d.Counters()
	require.Equal(t, first, second, "the same bits every run")
	require.Equal(t, before.Pipelines, after.Pipelines)
	require.Equal(t, before.BindGroups, after.BindGroups)
	require.Equal(t, before.Buffers, after.Buffers)
	require.Equal(t, before.LiveBytes, after.LiveBytes)
	require.Equal(t, before.Dispatches+uint64(p.Plan().Dispatches), after.Dispatches)
}

// TestSplitParams makes bindings so small that params lie in several row parts.
func TestSplitParams(t *testing.T) {
	lim := gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10})
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, shape := range [][]int{{300, 64}, {700, 33}, {20000}} {
			g := graph.New()
			p := g.Param("p", shape...)
			small := g.Slice(p, 0, shape[0]-7, 5) // across a cut or behind it
			w := &twin{graph: g, leaves: map[string]*graph.Value{"p": g.Scale(g.Apply("tanh", p), 0.1)}, values: []*graph.Value{g.Scale(small, 2)}}
			w.feed(rand.New(rand.NewPCG(7, 7)))
			program := w.check(t, d, 8*eps)
			require.Greater(t, program.Plan().Dispatches, 2, "a dispatch a part")
			w.accumulate = true
			w.check(t, d, 8*eps)
		}
	}, lim)
}

func TestTooLargeForABinding(t *testing.T) {
	lim := gpu.DefaultLimits()
	lim.BindingBytes = 64 << 10
	g := graph.New()
	end := g.Scope("h.3.mlp")
	v := g.Apply("exp", g.MatMul(x(g, "x", 200, 8), g.Param("w", 8, 200), false, false))
	end()
	_, err := PlanNarrow(t.Context(), g, []Target{{Name: "sum", Value: g.Sum(v)}}, nil, nil, lim)
	var limit *gpu.LimitError
	require.ErrorAs(t, err, &limit)
	require.Equal(t, uint64(160000), limit.Bytes)
	require.ErrorContains(t, err, "h.3.mlp")
	require.ErrorContains(t, err, "lower the batch or the context")
}

func TestCompileErrors(t *testing.T) {
	g := graph.New()
	v := g.Scale(g.Param("p", 3), 2)
	lim := gpu.DefaultLimits()
	for want, targets := range map[string][]Target{
		`graph: compile: target 0 "a": no value`:                                   {{Name: "a"}},
		`graph: compile: target 0: neither a name nor a leaf`:                      {{Value: v}},
		`graph: compile: target "a": given twice`:                                  {{Name: "a", Value: v}, {Name: "a", Value: v}},
		`graph: compile: target leaf "p": shape [3] in the tree, the value has []`: {{Leaf: "p", Value: g.Sum(v)}},
		`graph: compile: p: constant 1e+99: not a finite f32`:                      {{Name: "a", Value: g.Scale(v, 1e99)}},
	} {
		_, err := PlanNarrow(t.Context(), g, targets, nil, nil, lim)
		require.EqualError(t, err, want)
	}
	// A plan lays out the leaves that are asked for; a tree has those that it has.
	_, err := PlanNarrow(t.Context(), g, []Target{{Leaf: "q", Value: v}}, nil, nil, lim)
	require.NoError(t, err)
	dev := gpu.Dry(lim)
	layout, err := buffers.NewLayout([]buffers.Spec{{Path: "p", Shape: []int{3}}}, lim)
	require.NoError(t, err)
	params, err := buffers.NewTree(dev, "params", layout, buffers.F32)
	require.NoError(t, err)
	_, err = New(t.Context(), dev, g, Options{Params: params, Grads: params, Targets: []Target{{Leaf: "q", Value: v}}})
	require.EqualError(t, err, `graph: compile: target leaf "q": not in the grads tree`)
}

func TestWriteErrors(t *testing.T) {
	d := gputest.Device(t)
	g := graph.New()
	p, err := New(context.Background(), d, g, Options{Targets: []Target{{Name: "y", Value: g.Scale(x(g, "tokens", 3), 2)}}})
	require.NoError(t, err)
	defer p.Release()
	require.EqualError(t, p.WriteFloats("token", nil), `graph: write: input "token": not one of the program, did you mean "tokens"?`)
	require.EqualError(t, p.WriteFloats("tokens", []float32{1}), `graph: write: input "tokens": 1 elements of f32, want f32 [3]`)
	require.EqualError(t, p.WriteInts("tokens", []int32{1, 2, 3}), `graph: write: input "tokens": 3 elements of i32, want f32 [3]`)
}

// TestEmptyBatch: values without elements take no dispatch; a sum over them is zero.
func TestEmptyBatch(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		g := graph.New()
		in, p, q := x(g, "x", 0, 4), g.Param("p", 4), g.Param("q", 0, 4)
		h := g.LayerNorm(g.Mul(in, p), p, p, 1e-5)
		h = g.Softmax(g.Concat(0, h, g.Apply("tanh", in)))
		total := g.Sum(h)
		grads, err := graph.Gradients(g, total, []*graph.Value{p})
		require.NoError(t, err)
		w := &twin{graph: g, values: []*graph.Value{h, total, g.AddConst(g.Sum(h, 0), 1), g.Pad(in, 0, 1, 1)}, leaves: map[string]*graph.Value{"p": grads[0], "q": q}}
		w.feed(rand.New(rand.NewPCG(8, 8)))
		w.check(t, d, eps)
	})
}

// TestSmallDevice: few storage bindings split fused kernels, few workgroups fold grids.
func TestSmallDevice(t *testing.T) {
	lim := gputest.WithLimits(gpu.Limits{StorageBuffers: 4, Workgroups: 9})
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		g := graph.New()
		sum := x(g, "x", 7, 300)
		for i := range 6 {
			sum = g.Add(g.Scale(sum, 0.5), g.Apply("tanh", x(g, fmt.Sprint("x", i), 7, 300)))
		}
		w := &twin{graph: g, values: []*graph.Value{sum, g.Sum(g.Apply("square", sum), 0), g.Softmax(sum), g.Concat(1, sum, x(g, "x", 7, 300), g.Slice(sum, 1, 4, 3))}}
		w.feed(rand.New(rand.NewPCG(9, 9)))
		w.check(t, d, 64*eps)
	}, lim)
}

// TestInPlace: a chain of elementwise kernels that nothing else reads lives in one buffer, and a value that is read later
// keeps its own.
func TestInPlace(t *testing.T) {
	g := graph.New()
	a := g.MatMul(x(g, "x", 8, 8), x(g, "y", 8, 8), false, false)
	b := g.Apply("exp", a)
	c := g.Softmax(b)
	text := commandText(t, g, []Target{{Name: "v", Value: g.Sum(g.Mul(c, g.Softmax(g.Add(c, c))))}}, gpu.DefaultLimits())
	requireGolden(t, "inplace.txt", text)
}
