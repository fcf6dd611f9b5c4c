package state

import "gputrain/graph/compile"

// Work counts what an update does on one device, kernel by kernel. The operations of the passes add up to FLOPs and what Recompute has them compute
// again. The last entry is the optimizer, with what its Cost tells.
func (s *TrainState) Work() []compile.Work {
	d, batches := s.passes.(*onDevice), s.config.Share().Count
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
	})
}
