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

// best is the shortest time of a program. A program of microseconds is submitted many times before the wait, whose own time would count as the program's.
func best(ctx context.Context, dev *gpu.Device, p *gpu.Program) (time.Duration, error) {
	const wanted, most = 5 * time.Millisecond, 64
	once, err := shortest(submitting(ctx, dev, p))
	if err != nil || once >= wanted {
		return once, err
	}
	n := min(most, wanted/max(once, 1)+1)
	all, err := shortest(func() error {
		for range n - 1 {
			if err := p.Submit(ctx); err != nil {
				return err
			}
		}
		return submitting(ctx, dev, p)()
	})
	return min(once, all/n), err
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
	rec := dev.Record("gputrain.bench.copy")
	if err := buffers.Map(rec, dst, "a", src); err != nil {
		return 0, err
	}
	p, err := rec.Program(ctx)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	d, err := best(ctx, dev, p)
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

// mostProducts are in a submit at most.
const mostProducts = 500

// UnitPeak is what the matrix units of a device do in a large product, in FLOP/s; 0 where it has none that make products.
func UnitPeak(ctx context.Context, dev *gpu.Device) (float64, error) {
	if compile.UnitsOf(dev.Limits()) == "" {
		return 0, nil
	}
	rate, _, err := measureMatmul(ctx, dev, matmulShape{4096, 4096, 4096, "nn"}, true, 1e11)
	return 1e9 * rate, err
}

// measureMatmul is in GFLOP/s, with the kernels that it took: products of so many operations a submit, of operands rounded to f16 or not.
func measureMatmul(ctx context.Context, dev *gpu.Device, s matmulShape, rounded bool, flops float64) (rate float64, kernels string, err error) {
	g, c := s.graph(rounded)
	repeat := min(mostProducts, max(1, int(flops/s.flops())))
	compiled, p, release, err := graphProgram(ctx, dev, repeat, g, c)
	if err != nil {
		return 0, "", err
	}
	defer release()
	d, err := best(ctx, dev, p)
	return float64(repeat) * s.flops() / d.Seconds() / 1e9, compiled.Work()[0].Kernels, err
}

// graphProgram computes values of a graph so many times, ready to be submitted until release.
func graphProgram(ctx context.Context, dev *gpu.Device, repeat int, g *graph.Graph, values ...*graph.Value) (c *compile.Program, p *gpu.Program, release func(), err error) {
	var targets []compile.Target
	for i, v := range values {
		targets = append(targets, compile.Target{Name: fmt.Sprint("y", i), Value: v})
	}
	if c, err = compile.New(ctx, dev, g, compile.Options{Label: "bench", Targets: targets}); err != nil {
		return nil, nil, nil, err
	}
	rec := dev.Record("gputrain.bench")
	for range repeat {
		c.Record(rec)
	}
	if p, err = rec.Program(ctx); err != nil {
		c.Release()
		return nil, nil, nil, err
	}
	return c, p, func() { p.Release(); c.Release() }, nil
}

// measureOptimizer is the shortest time of an optimizer's update of one matrix, and its dispatches.
func measureOptimizer(ctx context.Context, dev *gpu.Device, name string, rows, cols int) (time.Duration, int, error) {
	p, release, err := optimizerProgram(ctx, dev, name, rows, cols)
	if err != nil {
		return 0, 0, err
	}
	defer release()
	d, err := best(ctx, dev, p)
	return d, p.Dispatches(), err
}

// optimizerProgram is an update of one matrix, ready to be submitted until release.
func optimizerProgram(ctx context.Context, dev *gpu.Device, name string, rows, cols int) (p *gpu.Program, release func(), err error) {
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
	rec := dev.Record("gputrain.bench." + name)
	if err = tx.Record(rec, phase, grads, opt, params); err != nil {
		return nil, nil, err
	}
	if p, err = rec.Program(ctx); err != nil {
		return nil, nil, err
	}
	owned = append(owned, p)
	return p, release, nil
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
			rate, _, err := measureMatmul(ctx, dev, s, false, tableSizes.flops)
			return rate, err
		}},
	}
}
