package bench

import (
	"context"
	"fmt"
	"time"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/kron"
)

// kronBlock makes 64 dense blocks of one parameter of 1024x1024.
const kronBlock = 128

// kronConfig is an engine as the optimizers make it of their defaults.
func kronConfig(method kron.Method) kron.Config {
	return kron.Config{
		Method: method, BlockSize: kronBlock, MaxSizeDense: 16384, PreconditionerLR: 0.7, InitScale: 1, DType: buffers.F32,
		NoiseScale: 1e-9, Damping: 1e-3, Rules: kron.Stable(),
	}
}

// kronFlops is the work of one block, a multiply-add as two. A refresh is counted as its definition has it, 14 b³ multiply-adds for quad and
// 16 for skew; symmetry and what is kept from the last refresh save a part of them. Where the factors are only applied there are 2 b³.
func kronFlops(method kron.Method, reuse bool) float64 {
	products := 14.
	switch {
	case reuse:
		products = 2
	case method == kron.Skew:
		products = 16
	}
	return 2 * products * kronBlock * kronBlock * kronBlock
}

// kronFigures reports refreshes of dense blocks, and updates that apply what they have, as ratios to the square product.
func (r measurement) kronFigures(ctx context.Context, dev *gpu.Device) error {
	square := r.products[0]
	rate, _, err := measureMatmul(ctx, dev, square, false)
	if err != nil {
		return err
	}
	for _, method := range []kron.Method{kron.Quad, kron.Skew} {
		for _, reuse := range []bool{false, true} {
			plan, err := kron.NewPlan([]kron.Leaf{{Path: "w", Shape: []int{r.kron, r.kron}}}, kronConfig(method))
			if err != nil {
				return err
			}
			d, dispatches, err := measureKron(ctx, dev, plan, reuse, r.kron)
			if err != nil {
				return err
			}
			blocks := plan.DenseBlocks()
			what := "refresh"
			if reuse {
				what = "apply"
			}
			f := Figure{Bench: fmt.Sprintf("kron %s %s, %dx%d", method, what, blocks, kronBlock), Unit: "GFLOP/s", Of: fmt.Sprintf("matmul %s's %.1f", square, rate)}
			if err := r.report(f.beside(rate, float64(blocks)*kronFlops(method, reuse), d, dispatches)); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureKron is the shortest time of one update, and its dispatches. Gradients are copied in anew for each.
func measureKron(ctx context.Context, dev *gpu.Device, plan *kron.Plan, reuse bool, side int) (time.Duration, int, error) {
	gradient := buffers.Host{Path: "w", Shape: []int{side, side}, Data: make([]float32, side*side)}
	key := prng.NewKey(1)
	for i := range gradient.Data {
		gradient.Data[i] = key.Normal(uint64(i))
	}
	grads, err := buffers.Upload(dev, "bench.kron.grads", []buffers.Host{gradient}, buffers.F32)
	if err != nil {
		return 0, 0, err
	}
	defer grads.Release()
	updates, err := buffers.NewTree(dev, "bench.kron.updates", grads.Layout(), buffers.F32)
	if err != nil {
		return 0, 0, err
	}
	defer updates.Release()
	s, err := kron.NewState(dev, plan, updates.Layout())
	if err != nil {
		return 0, 0, err
	}
	defer s.Release()
	record := func(rec *gpu.Recording, reuse bool) error {
		if err := buffers.Copy(rec, updates, grads); err != nil {
			return err
		}
		s.Record(rec, updates, gpu.Range{}, reuse)
		return nil
	}
	// A few refreshes bring the factors to where they stay.
	for n := range int64(4) {
		if err := s.Prepare(n + 1); err != nil {
			return 0, 0, err
		}
		rec := dev.Record("gputrain.bench.kron.refresh")
		if err := record(rec, false); err != nil {
			return 0, 0, err
		}
		if err := rec.Submit(ctx); err != nil {
			return 0, 0, err
		}
	}
	d, dispatches, err := repeated(ctx, dev, "kron", func(rec *gpu.Recording) error { return record(rec, reuse) })
	return d, dispatches - 1, err
}
