package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/system"
)

// A contest is one piece of work, prepared on a device.
type contest struct {
	name, unit string
	work       float64 // in billions of the unit's
	prepare    func(ctx context.Context, dev *gpu.Device) (run func() error, release func(), err error)
}

// contestRounds is how often each side runs; the best of them counts.
const contestRounds = 7

// benchTexels measures work with operands from buffers and from texels, in turns in one run, so that what disturbs the machine disturbs both.
func texelFigures(ctx context.Context, a gpu.Adapter, report func(Figure) error) error {
	if a.Limits.TexelBindings == 0 {
		return nil
	}
	for _, c := range contests() {
		off, on, err := c.run(ctx, a)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		line := Figure{
			Bench: "texels " + c.name, Value: c.work / on.Seconds(), Unit: c.unit, Millis: on.Seconds() * 1e3,
			Ratio: off.Seconds() / on.Seconds(), Of: fmt.Sprintf("the speed from buffers, %.1f", c.work/off.Seconds()),
		}
		if err := report(line); err != nil {
			return err
		}
	}
	return nil
}

// run is the shortest time of the work from buffers and from texels.
func (c contest) run(ctx context.Context, a gpu.Adapter) (off, on time.Duration, err error) {
	uses := []gpu.TexelUse{gpu.TexelsOff, gpu.TexelsAll}
	best := []time.Duration{math.MaxInt64, math.MaxInt64}
	var runs []func() error
	for _, use := range uses {
		dev, err := gpu.Open(ctx, a, gpu.Options{Texels: use})
		if err != nil {
			return 0, 0, err
		}
		defer dev.Release()
		run, release, err := c.prepare(ctx, dev)
		if err != nil {
			return 0, 0, err
		}
		defer release()
		runs = append(runs, run)
	}
	for i := range 1 + contestRounds {
		for side, run := range runs {
			took := system.Stopwatch()
			if err := run(); err != nil {
				return 0, 0, err
			}
			if d := took(); i > 0 {
				best[side] = min(best[side], d)
			}
		}
	}
	return best[0], best[1], nil
}

// contests are the products of the default model, its attention, AdamW, and its step.
func contests() []contest {
	var out []contest
	for _, s := range benchShapes[3:] {
		out = append(out, contest{name: "matmul " + s.String(), unit: "GFLOP/s", work: s.flops() / 1e9, prepare: func(ctx context.Context, dev *gpu.Device) (func() error, func(), error) {
			g, y := s.graph(false)
			return prepareGraph(ctx, dev, g, y)
		}})
	}
	for _, shape := range []attentionShape{{8, 128, 4, 32}, {1, 1024, 8, 64}} {
		out = append(out, shape.contest(false), shape.contest(true))
	}
	return append(out,
		contest{name: "adamw", unit: "GB/s", work: 28 * figureElements / 1e9, prepare: func(ctx context.Context, dev *gpu.Device) (func() error, func(), error) {
			record, release, err := optimizerUpdate(ctx, dev, "adamw", figureElements/4096, 4096)
			if err != nil {
				return nil, nil, err
			}
			return prepared(ctx, dev, record, release)
		}},
		contest{name: "train adamw, 1024 tokens", unit: "thousand tokens/s", work: 1.024, prepare: func(ctx context.Context, dev *gpu.Device) (func() error, func(), error) {
			s, err := newStepper(ctx, dev, trainVariants[0], torchBatch)
			if err != nil {
				return nil, nil, err
			}
			return func() error { return s.step(ctx, dev, false) }, s.state.Release, nil
		}},
	)
}

// attentionFigures measures attention, forward and with its gradient.
func (r measurement) attentionFigures(ctx context.Context, dev *gpu.Device) error {
	for _, s := range r.attention {
		for _, backward := range []bool{false, true} {
			g, values, err := s.graph(backward)
			if err != nil {
				return err
			}
			took, work, err := measureGraph(ctx, dev, g, values...)
			if err != nil {
				return err
			}
			executed := 0.0
			for _, w := range work {
				if w.Group == compile.Attention {
					executed += w.FLOPs
				}
			}
			f := Figure{Bench: s.name(backward), Value: s.flops(backward) / took.Seconds() / 1e9, Unit: "GFLOP/s", Millis: took.Seconds() * 1e3}
			f.Ratio, f.Of = executed/s.flops(backward), fmt.Sprintf("the operations needed are executed, at %.0f GFLOP/s", executed/took.Seconds()/1e9)
			if err := r.report(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// An attentionShape is causal attention of some sequences.
type attentionShape struct{ batch, tokens, heads, width int }

func (s attentionShape) name(backward bool) string {
	name := "attention"
	if backward {
		name += " and its gradient"
	}
	return fmt.Sprintf("%s %dx%d, %d heads of %d", name, s.batch, s.tokens, s.heads, s.width)
}

// flops are needed where no scores are kept: of two products forward and five of the gradient, one of which makes the scores again. A mask takes half.
func (s attentionShape) flops(backward bool) float64 {
	products := 2.0
	if backward {
		products += 5
	}
	return products * float64(s.batch*s.heads*s.width) * float64(s.tokens) * float64(s.tokens)
}

func (s attentionShape) graph(backward bool) (*graph.Graph, []*graph.Value, error) {
	g := graph.New()
	qkv := g.Input("qkv", graph.Type{Shape: []int{s.batch, s.tokens, 3 * s.heads * s.width}, DType: buffers.F32})
	y := g.PackedAttention(qkv, s.heads, s.heads, s.width, true)
	if !backward {
		return g, []*graph.Value{y}, nil
	}
	grads, err := graph.Gradients(g, g.Sum(g.Mul(y, g.Input("dy", y.Type()))), []*graph.Value{qkv})
	return g, append([]*graph.Value{y}, grads...), err
}

func (s attentionShape) contest(backward bool) contest {
	return contest{name: s.name(backward), unit: "GFLOP/s", work: s.flops(backward) / 1e9, prepare: func(ctx context.Context, dev *gpu.Device) (func() error, func(), error) {
		g, values, err := s.graph(backward)
		if err != nil {
			return nil, nil, err
		}
		return prepareGraph(ctx, dev, g, values...)
	}}
}

// prepareGraph compiles values of a graph.
func prepareGraph(ctx context.Context, dev *gpu.Device, g *graph.Graph, values ...*graph.Value) (func() error, func(), error) {
	c, err := compiled(ctx, dev, g, values...)
	if err != nil {
		return nil, nil, err
	}
	return prepared(ctx, dev, func(rec *gpu.Recording) error { c.Record(rec); return nil }, c.Release)
}

// prepared is what runs what is recorded, and releases it with what it is recorded of.
func prepared(ctx context.Context, dev *gpu.Device, record func(*gpu.Recording) error, release func()) (func() error, func(), error) {
	rec := dev.Record("gputrain.bench")
	err := record(rec)
	var p *gpu.Program
	if err == nil {
		p, err = rec.Program(ctx)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return submitting(ctx, dev, p), func() { p.Release(); release() }, nil
}

// submitting runs a program and waits for it.
func submitting(ctx context.Context, dev *gpu.Device, p *gpu.Program) func() error {
	return func() error {
		if err := p.Submit(ctx); err != nil {
			return err
		}
		return dev.Wait(ctx)
	}
}
