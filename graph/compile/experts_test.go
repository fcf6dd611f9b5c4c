package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// The same bits every run, on kernels for GPUs too.
func TestExpertsTwiceTheSame(t *testing.T) {
	gputest.EachBackend(t, func(t *testing.T, d *gpu.Device) {
		var before [][]byte
		for range 3 {
			g := graph.New()
			values := checkedExperts(g, 70, 6, 3, 20, 36, false)
			var targets []Target
			for i, v := range values {
				targets = append(targets, Target{Name: fmt.Sprint(i), Value: v})
			}
			p, err := New(t.Context(), d, g, Options{Label: "twice", Targets: targets})
			require.NoError(t, err)
			defer p.Release()
			feeds := Check{}.feeds(g)
			for name, typ := range p.Inputs() {
				require.NoError(t, p.writeArray(name, typ.DType, feeds[name]))
			}
			rec := d.Record("twice")
			p.Record(rec)
			require.NoError(t, rec.Submit(t.Context()))
			var now [][]byte
			for i := range values {
				at := p.Output(fmt.Sprint(i))
				raw := make([]byte, at.Bytes)
				require.NoError(t, d.Read(t.Context(), raw, at))
				now = append(now, raw)
			}
			if before != nil {
				require.Equal(t, before, now)
			}
			before = now
		}
	})
}

// Equal scores go to the first experts, in order.
func TestTiesGoByIndex(t *testing.T) {
	g := graph.New()
	route := g.Append(graph.Router{K: 3}, g.Input("logits", graph.F32(1, 5)))
	got, err := graph.Eval(g, map[string]*graph.Array{"logits": {Shape: []int{1, 5}, Data: []float64{1, 2, 1, 2, 1}}}, route.Outputs[1])
	require.NoError(t, err)
	require.Equal(t, []float64{1, 3, 0}, got[0].Data)
	check := Check{Name: "ties", Tolerance: 8, Given: map[string][]float64{"logits": {1, 2, 1, 2, 1}}, Build: func(g *graph.Graph) []*graph.Value {
		route := g.Append(graph.Router{K: 3}, checkedInput(g, "logits", 1, 5))
		group := g.Append(graph.Group{Experts: 5, Tile: 4}, route.Outputs[1])
		x := g.Append(graph.Spread{}, checkedInput(g, "x", 1, 4), group.Outputs[0], group.Outputs[1]).Outputs[0]
		y := g.Append(graph.RaggedMatMul{Tile: 4, Rows: 3}, x, checkedInput(g, "w", 5, 4, 4), group.Outputs[2]).Outputs[0]
		return []*graph.Value{y} // as laid out: the experts in order
	}}
	gputest.Checks(t, []gpu.Check{{Name: check.Name, Run: check.run}})
}

func TestExpertsAreTheirTwins(t *testing.T) {
	gputest.Checks(t, slices.DeleteFunc(Checks(), func(c gpu.Check) bool {
		if strings.HasPrefix(c.Name, "graph experts") {
			return strings.Contains(c.Name, " of nf4") || strings.HasSuffix(c.Name, " bf16")
		}
		return !strings.HasPrefix(c.Name, "graph clamped") && !strings.HasSuffix(c.Name, " sinks")
	}))
}

// Kernels for GPUs, gradients that are added to a tree's, and bits that are the same twice.
func TestExpertsOfATree(t *testing.T) {
	d := gputest.Device(t)
	for _, inOut := range []bool{false, true} {
		g := graph.New()
		shape := []int{6, 36, 20}
		if inOut {
			shape = []int{6, 20, 36}
		}
		w, router, x := g.Param("h.0.experts", shape...), g.Param("h.0.router", 6, 20), checkedInput(g, "x", 70, 20)
		route := g.Append(graph.Router{K: 3, All: inOut}, g.MatMul(x, router, false, true))
		group := g.Append(graph.Group{Experts: 6, Tile: 16}, route.Outputs[1])
		laid := g.Append(graph.Spread{}, x, group.Outputs[0], group.Outputs[1]).Outputs[0]
		y := g.Append(graph.RaggedMatMul{TransW: !inOut, Tile: 16, Rows: 210}, laid, w, group.Outputs[2]).Outputs[0]
		sum := g.Append(graph.Combine{}, y, group.Outputs[0], group.Outputs[1], route.Outputs[0]).Outputs[0]
		loss := g.Sum(g.Mul(sum, checkedInput(g, "dy", 70, 36)))
		grads, err := graph.Gradients(g, loss, []*graph.Value{w, router})
		require.NoError(t, err)
		twin := &twin{graph: g, values: []*graph.Value{sum}, leaves: map[string]*graph.Value{"h.0.experts": grads[0], "h.0.router": grads[1]}, hardware: true, accumulate: inOut}
		twin.feed(rand.New(rand.NewPCG(41, 42)))
		twin.checkTwice(t, d, 1e-4)
	}
}

func TestSinksByKernelsOfGPUs(t *testing.T) {
	d := gputest.Device(t)
	for _, headDim := range []int{8, 6} {
		w := &twin{graph: graph.New(), hardware: true}
		w.values = checkedAttention(w.graph, graph.Attention{Heads: 4, KVHeads: 2, HeadDim: headDim, Causal: true, Window: 30, Sinks: true}, 2, 70)
		w.feed(rand.New(rand.NewPCG(43, 44)))
		w.checkTwice(t, d, 1e-4)
	}
	cached := &twin{graph: graph.New(), hardware: true, feeds: map[string]*graph.Array{}}
	for i, check := range cachedAttentionChecks {
		if strings.HasSuffix(check.Name, "sinks") {
			cached.values = cachedAttentionChecks[i].Build(cached.graph)
		}
	}
	cached.feeds["positions"] = &graph.Array{Shape: []int{3, 1}, Data: []float64{1029, 3, 500}}
	cached.feed(rand.New(rand.NewPCG(45, 46)))
	cached.check(t, d, 1e-4)
}

// Products with matrices of experts that are kept in bf16 and nf4 have the bits of those with the same numbers in f32, in one part and in several, and read no
// copies.
func TestKeptExperts(t *testing.T) {
	for _, c := range []struct {
		rows    int
		shape   []int
		binding uint64
	}{
		{rows: 40, shape: []int{5, 36, 20}},
		{rows: 70, shape: []int{5, 72, 36}}, // in tiles
		{rows: 3, shape: []int{70, 20, 36}},
		{rows: 20, shape: []int{6, 128, 128}, binding: 64 << 10},
	} {
		d := gputest.Device(t, gputest.WithLimits(gpu.Limits{BindingBytes: c.binding}))
		run := func(kept buffers.DType, software bool, w []float32) (*buffers.Tree, *Program, [2][]float64) {
			tree, err := buffers.Upload(d, "beside", []buffers.Host{{Path: "h.0.w", Shape: c.shape, Data: w}}, kept)
			require.NoError(t, err)
			t.Cleanup(tree.Release)
			g := graph.New()
			values := readsOf(g, g.Param("h.0.w", c.shape...), c.rows)
			p, err := newFor(t.Context(), d, g, Options{Beside: []*buffers.Tree{tree}, Targets: []Target{{Name: "0", Value: values[0]}, {Name: "1", Value: values[1]}}}, limitsAs(d, software))
			require.NoError(t, err)
			t.Cleanup(p.Release)
			for name, a := range (Check{}).feeds(g) {
				require.NoError(t, p.writeArray(name, p.Inputs()[name].DType, a))
			}
			rec := d.Record("test")
			p.Record(rec)
			require.NoError(t, rec.Submit(t.Context()), rec.String())
			var out [2][]float64
			for i := range out {
				at := p.Output(fmt.Sprint(i))
				out[i] = readRange(t, d, at, int(at.Bytes/4))
			}
			return tree, p, out
		}
		for _, software := range []bool{true, false} {
			for _, kept := range array.Bases[1:] {
				tree, p, got := run(kept, software, normal(graph.Elements(c.shape)))
				numbers, err := tree.Read(t.Context(), "h.0.w")
				require.NoError(t, err)
				_, _, right := run(buffers.F32, software, numbers)
				require.Equal(t, right, got, "%v in %v, software %v", c.shape, kept, software)
				for _, cmd := range p.commands {
					require.False(t, cmd.kernel != nil && strings.HasSuffix(cmd.kernel.Label, "_widen"), "%v in %v", c.shape, kept)
				}
				leaf, _ := tree.Layout().Leaf("h.0.w")
				require.Equal(t, c.binding > 0, len(leaf.Parts) > 1)
			}
		}
	}
}

// expertsInTiles are products of experts of so many rows, both ways, and the outer ones, by tiles: of the first and the last expert that some row takes, of one
// without rows, and whole and cut ones.
func expertsInTiles(rows, experts, k, in, out int, inOut, f16 bool) *twin {
	g := graph.New()
	shape := []int{experts, out, in}
	if inOut {
		shape = []int{experts, in, out}
	}
	x, w, logits := checkedInput(g, "x", rows, in), checkedInput(g, "w", shape...), g.Add(checkedInput(g, "logits", rows, experts), checkedInput(g, "never", experts))
	tile := graph.RaggedTile(rows*k, experts)
	group := g.Append(graph.Group{Experts: experts, Tile: tile}, g.Append(graph.Router{K: k}, logits).Outputs[1])
	laid := g.Append(graph.Spread{}, x, group.Outputs[0], group.Outputs[1]).Outputs[0]
	y := g.Append(graph.RaggedMatMul{TransW: !inOut, Tile: tile, Rows: rows * k}, laid, w, group.Outputs[2]).Outputs[0]
	grads, err := graph.Gradients(g, g.Sum(g.Mul(y, g.Append(graph.Spread{}, checkedInput(g, "dy", rows, out), group.Outputs[0], group.Outputs[1]).Outputs[0])), []*graph.Value{laid, w})
	if err != nil {
		panic(err)
	}
	if f16 {
		g.RoundProducts()
	}
	t := &twin{graph: g, values: append(grads, y), hardware: true, feeds: map[string]*graph.Array{"never": graph.NewArray([]int{experts})}}
	t.feeds["never"].Data[experts/2] = -100
	t.feed(rand.New(rand.NewPCG(47, 48)))
	return t
}

func TestExpertsInTiles(t *testing.T) {
	d := gputest.Device(t)
	for _, c := range []struct {
		rows, experts, k, in, out int
		kernels                   []string // of either direction
	}{
		{70, 6, 3, 36, 68, []string{"matmul_tiled_nt_32_ragged", "matmul_tiled_nn_32_ragged", "matmul_tiled_tn_32_outer"}},
		{150, 5, 3, 64, 72, []string{"matmul_tiled_nt_64_ragged", "matmul_tiled_nn_64_ragged", "matmul_tiled_tn_64_outer"}},
		{1100, 3, 2, 4, 516, []string{"matmul_tiled_nt_128_ragged"}},
	} {
		for _, inOut := range []bool{false, true} {
			w := expertsInTiles(c.rows, c.experts, c.k, c.in, c.out, inOut, false)
			p := w.check(t, d, 1e-4)
			var made []string
			for _, cmd := range p.commands {
				if cmd.kernel != nil {
					made = append(made, strings.TrimPrefix(cmd.kernel.Label, "gputrain.graph."))
				}
			}
			for _, kernel := range c.kernels {
				if inOut && len(c.kernels) == 1 {
					kernel = strings.Replace(kernel, "_nt_", "_nn_", 1)
				}
				require.Contains(t, made, kernel)
			}
		}
	}
	expertsInTiles(70, 6, 3, 36, 68, false, false).checkTwice(t, d, 1e-4)
}

// By matrix units, or their plain bodies, operands are rounded to f16.
func TestMatrixUnitsOfExperts(t *testing.T) {
	d := gputest.Device(t, func(o *gpu.Options) { o.Matrix = true })
	made := []gpu.MatrixUnits{{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 64}, {Shapes: []gpu.MatrixShape{{M: 16, N: 16, K: 16}}, Lanes: 32, Subgroups: 32}}
	if own := d.Limits().Matrix; len(own.Shapes) > 0 {
		made = []gpu.MatrixUnits{own}
	}
	for i, inOut := range []bool{false, true, true} {
		if i == 2 && (testing.Short() || len(made) == 1) {
			break // tiles of 64 rows, whose plain bodies take a minute to compile
		}
		w := expertsInTiles(70, 6, 3, 36, 72, inOut, true)
		w.matrix = made[i/2%len(made)]
		p := w.check(t, d, 1e-4)
		matrix := 0
		for _, cmd := range p.commands {
			if cmd.kernel != nil && strings.Contains(cmd.kernel.Label, "matmul_matrix") {
				matrix++
			}
		}
		require.Equal(t, 3, matrix)
	}
	expertsInTiles(70, 6, 3, 38, 70, false, true).check(t, d, 1e-4) // by no units
}
