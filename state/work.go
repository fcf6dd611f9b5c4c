package state

import (
	"context"
	"fmt"

	"gputrain/gpu"
	"gputrain/graph/compile"
)

// Work counts what an update does on a device of an adapter with these limits, kernel by kernel; it needs no device. The operations of the
// passes add up to FLOPs and what Recompute has them compute again. The last entry is the optimizer, with what its Cost tells.
func (c Config) Work(ctx context.Context, a gpu.Adapter, lim gpu.Limits) ([]compile.Work, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	c.Evaluation, c.Sampling = 0, false
	s, _, err := c.dryOn(ctx, a, lim)
	if err != nil {
		return nil, fmt.Errorf("state: work: %w", err)
	}
	defer s.Release()
	d, batches := s.passes.(*onDevice), c.Share().Count
	work := d.micro.Work()
	for i := range work {
		w := &work[i]
		w.Dispatches, w.Bytes, w.Least, w.FLOPs = w.Dispatches*batches, w.Bytes*uint64(batches), w.Least*uint64(batches), w.FLOPs*int64(batches)
	}
	if len(d.begin) > 0 {
		work = append(work, compile.Work{Group: compile.Rest, Kind: "gradients", Kernels: "zero", Bytes: d.grads.Bytes()})
	}
	if dispatches, bytes := d.sums.work(); bytes > 0 {
		work = append(work, compile.Work{Group: compile.Rest, Kind: "gradients", Kernels: "sum", Dispatches: dispatches, Bytes: bytes})
	}
	tx := s.own.Transform
	cost, trained := tx.Cost(), float64(s.own.Params.Layout().Elements())
	return append(work, compile.Work{
		Group: "optimizer", Kind: "update", Kernels: tx.Name(), Dispatches: s.updater.Program().Dispatches(),
		Bytes: uint64(cost.TrafficBytes * trained), FLOPs: int64(cost.FLOPs * trained),
	}), nil
}

// dryOn is a training state on a dry device like that on an adapter, with these limits.
func (c Config) dryOn(ctx context.Context, a gpu.Adapter, lim gpu.Limits) (*TrainState, *gpu.Device, error) {
	layout, frozen, err := c.layouts(lim)
	if err != nil {
		return nil, nil, err
	}
	dev := gpu.DryOf(a, lim)
	s, err := c.dry(ctx, layout, frozen, dev)
	return s, dev, err
}
