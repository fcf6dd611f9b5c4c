package pipeline

import (
	"context"
	"time"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/system"
)

const (
	powerRuns    = 3
	longEnough   = 4 * time.Millisecond // of one run, beside which what a submit costs is small
	smallProduct = 256                  // edge of the first product; doubled while it is over too soon
	largeProduct = 4096
	movedBytes   = 4 << 20 // of a message like those that cross a cut
)

// measurePower runs a square product and moves a message to the device and back.
func measurePower(ctx context.Context, dev *gpu.Device) (gpu.Speed, error) {
	var p gpu.Speed
	for edge := smallProduct; ; edge *= 2 {
		took, err := timeProduct(ctx, dev, edge)
		if err != nil {
			return p, err
		}
		p.FLOPS = 2 * float64(edge) * float64(edge) * float64(edge) / took.Seconds()
		if took >= longEnough || edge == largeProduct {
			break
		}
	}
	took, err := timeMove(ctx, dev)
	p.BytesPerSecond = movedBytes / took.Seconds()
	return p, err
}

// shortest is the time of the fastest of a few runs, after one that warms up: what the device does when nothing disturbs it.
func shortest(run func() error) (time.Duration, error) {
	best := time.Duration(0)
	for i := range powerRuns + 1 {
		watch := system.Stopwatch()
		if err := run(); err != nil {
			return 0, err
		}
		if took := max(watch(), 1); i > 0 && (best == 0 || took < best) {
			best = took
		}
	}
	return best, nil
}

func timeProduct(ctx context.Context, dev *gpu.Device, edge int) (time.Duration, error) {
	g := graph.New()
	square := graph.Type{Shape: []int{edge, edge}, DType: buffers.F32}
	product := g.MatMul(g.Input("a", square), g.Input("b", square), false, false)
	p, err := compile.New(ctx, dev, g, compile.Options{Label: "power", Targets: []compile.Target{{Name: "c", Value: product}}})
	if err != nil {
		return 0, err
	}
	defer p.Release()
	rec := dev.Record("gputrain.pipeline.power")
	p.Record(rec)
	program, err := rec.Program(ctx)
	if err != nil {
		return 0, err
	}
	defer program.Release()
	return shortest(func() error {
		if err := program.Submit(ctx); err != nil {
			return err
		}
		return dev.Wait(ctx)
	})
}

// timeMove is the time of movedBytes one way: half of there and back.
func timeMove(ctx context.Context, dev *gpu.Device) (time.Duration, error) {
	buffer, err := dev.NewBuffer("gputrain.pipeline.power", movedBytes)
	if err != nil {
		return 0, err
	}
	defer buffer.Release()
	message := make([]byte, movedBytes)
	took, err := shortest(func() error {
		if err := dev.Write(buffer.All(), message); err != nil {
			return err
		}
		return dev.Read(ctx, message, buffer.All())
	})
	return took / 2, err
}
