package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/system"
	"gputrain/optim"
)

// repeated is the shortest time of what record records, and its dispatches. A submit takes tens of microseconds itself, so what is short is recorded
// many times a submit.
func repeated(ctx context.Context, dev *gpu.Device, label string, record func(*gpu.Recording) error) (took time.Duration, dispatches int, err error) {
	const wanted, most = 10 * time.Millisecond, 512 // dispatches
	run := func(n int) (time.Duration, error) {
		rec := dev.Record("gputrain.bench." + label)
		for range n {
			if err := record(rec); err != nil {
				return 0, err
			}
		}
		p, err := rec.Program(ctx)
		if err != nil {
			return 0, err
		}
		defer p.Release()
		dispatches = p.Dispatches() / n
		d, err := shortest(submitting(ctx, dev, p))
		return d / time.Duration(n), err
	}
	if took, err = run(1); err != nil {
		return 0, 0, err
	}
	if n := min(most/max(1, dispatches), int(wanted/max(took, 1))+1); n > 1 {
		took, err = run(n)
	}
	return took, dispatches, err
}

// shortest runs something a few times and returns the shortest time of one run: what the machine can do when nothing else disturbs it.
func shortest(run func() error) (time.Duration, error) {
	const runs = 7
	var least time.Duration
	for i := range runs + 1 {
		took := system.Stopwatch()
		if err := run(); err != nil {
			return 0, err
		}
		// The first run warms up.
		if d := took(); i > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least, nil
}

// figureElements is the size of the trees in the figures of memory speed:
// 16.8 million f32, 64 MiB a tree.
const figureElements = 1 << 24

func figureTree(dev *gpu.Device, label string, rows, cols int) (*buffers.Tree, error) {
	layout, err := buffers.NewLayout([]buffers.Spec{{Path: "w", Shape: []int{rows, cols}}}, dev.Limits())
	if err != nil {
		return nil, err
	}
	return buffers.NewTree(dev, label, layout, buffers.F32)
}

// Copy is the speed of a copying kernel, bytes read and written, in
// GB/s.
func Copy(ctx context.Context, dev *gpu.Device) (float64, error) {
	return copyRate(ctx, dev, figureElements)
}

func copyRate(ctx context.Context, dev *gpu.Device, elements int) (float64, error) {
	src, err := figureTree(dev, "bench.src", elements/4096, 4096)
	if err != nil {
		return 0, err
	}
	defer src.Release()
	dst, err := figureTree(dev, "bench.dst", elements/4096, 4096)
	if err != nil {
		return 0, err
	}
	defer dst.Release()
	d, _, err := repeated(ctx, dev, "copy", func(rec *gpu.Recording) error { return buffers.Map(rec, dst, "a", src) })
	return 2 * 4 * float64(elements) / d.Seconds() / 1e9, err
}

// A matmulShape is C[M,N] = A B with A and B stored as the form says: nn, nt
// or tn.
type matmulShape struct {
	M, K, N int
	form    string
}

func (s matmulShape) String() string { return fmt.Sprintf("%s %dx%dx%d", s.form, s.M, s.K, s.N) }

func (s matmulShape) flops() float64 { return 2 * float64(s.M) * float64(s.K) * float64(s.N) }

// graph is the product of two inputs, rounded to f16 or not.
func (s matmulShape) graph(rounded bool) (*graph.Graph, *graph.Value) {
	g := graph.New()
	a, b := []int{s.M, s.K}, []int{s.K, s.N}
	if s.form == "tn" {
		a = []int{s.K, s.M}
	}
	if s.form == "nt" {
		b = []int{s.N, s.K}
	}
	c := g.MatMul(g.Input("a", graph.Type{Shape: a, DType: buffers.F32}), g.Input("b", graph.Type{Shape: b, DType: buffers.F32}), s.form == "tn", s.form == "nt")
	if rounded {
		g.RoundProducts()
	}
	return g, c
}

// UnitPeak is what the matrix units of a device do in a large product, in FLOP/s; 0 where it has none that make products.
func UnitPeak(ctx context.Context, dev *gpu.Device) (float64, error) {
	if compile.UnitsOf(dev.Limits()) == "" {
		return 0, nil
	}
	rate, _, err := measureMatmul(ctx, dev, matmulShape{4096, 4096, 4096, "nn"}, true)
	return 1e9 * rate, err
}

// measureMatmul is in GFLOP/s, with the kernels that it took, of operands rounded to f16 or not.
func measureMatmul(ctx context.Context, dev *gpu.Device, s matmulShape, rounded bool) (rate float64, kernels string, err error) {
	g, c := s.graph(rounded)
	d, work, err := measureGraph(ctx, dev, g, c)
	if err != nil {
		return 0, "", err
	}
	return s.flops() / d.Seconds() / 1e9, work[0].Kernels, nil
}

// measureGraph is the shortest time in which values of a graph are computed, and of what.
func measureGraph(ctx context.Context, dev *gpu.Device, g *graph.Graph, values ...*graph.Value) (time.Duration, []compile.Work, error) {
	c, err := compiled(ctx, dev, g, values...)
	if err != nil {
		return 0, nil, err
	}
	defer c.Release()
	d, _, err := repeated(ctx, dev, "graph", func(rec *gpu.Recording) error { c.Record(rec); return nil })
	return d, c.Work(), err
}

// compiled is the program of values of a graph.
func compiled(ctx context.Context, dev *gpu.Device, g *graph.Graph, values ...*graph.Value) (*compile.Program, error) {
	var targets []compile.Target
	for i, v := range values {
		targets = append(targets, compile.Target{Name: fmt.Sprint("y", i), Value: v})
	}
	return compile.New(ctx, dev, g, compile.Options{Label: "bench", Targets: targets})
}

// measureOptimizer is the shortest time of an optimizer's update of one matrix, and its dispatches.
func measureOptimizer(ctx context.Context, dev *gpu.Device, name string, rows, cols int) (time.Duration, int, error) {
	record, release, err := optimizerUpdate(ctx, dev, name, rows, cols)
	if err != nil {
		return 0, 0, err
	}
	defer release()
	return repeated(ctx, dev, name, record)
}

// optimizerUpdate records updates of one matrix until release.
func optimizerUpdate(ctx context.Context, dev *gpu.Device, name string, rows, cols int) (record func(*gpu.Recording) error, release func(), err error) {
	var owned []interface{ Release() }
	release = func() {
		for _, o := range slices.Backward(owned) {
			o.Release()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	tx, err := optim.Build(name, optim.Options{Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 1e-3}, WeightDecay: 0.1}, nil)
	if err != nil {
		return nil, nil, err
	}
	params, err := figureTree(dev, "bench.params", rows, cols)
	if err != nil {
		return nil, nil, err
	}
	owned = append(owned, params)
	grads, err := figureTree(dev, "bench.grads", rows, cols)
	if err != nil {
		return nil, nil, err
	}
	owned = append(owned, grads)
	fill := dev.Record("gputrain.bench.fill")
	if err = buffers.Fill(fill, grads, 0.25); err != nil {
		return nil, nil, err
	}
	if err = fill.Submit(ctx); err != nil {
		return nil, nil, err
	}
	opt, err := tx.Init(params)
	if err != nil {
		return nil, nil, err
	}
	owned = append(owned, opt)
	phase, err := opt.Prepare()
	if err != nil {
		return nil, nil, err
	}
	return func(rec *gpu.Recording) error { return tx.Record(rec, phase, grads, opt, params) }, release, nil
}

// Speed is a figure of the doctor.
type Speed struct {
	Name, Unit string
	Measure    func(context.Context, *gpu.Device) (float64, error)
}

// Speeds are the figures of the doctor, a copy and a product.
func Speeds() []Speed {
	s := matmulShape{512, 512, 512, "nn"}
	return []Speed{
		{"copy", "GB/s", Copy},
		{"matmul " + s.String(), "GFLOP/s", func(ctx context.Context, dev *gpu.Device) (float64, error) {
			rate, _, err := measureMatmul(ctx, dev, s, false)
			return rate, err
		}},
	}
}
