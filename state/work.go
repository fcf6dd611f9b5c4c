package state

import (
	"gputrain/gpu"
	"gputrain/graph/compile"
)

// Work counts what an update does on one device, kernel by kernel. The operations of the passes add up to FLOPs and what Recompute has them compute
// again. The last entry is the optimizer, with what its Cost tells.
func (s *TrainState) Work() []compile.Work {
	d, batches := s.passes.(*onDevice), s.config.Share().Count
	work := d.micro.Work()
	for i, w := range work {
		work[i].Dispatches, work[i].Work, work[i].Least = w.Dispatches*batches, w.Times(float64(batches)), w.Least*float64(batches)
	}
	gradients := func(kernels string, dispatches int, bytes uint64) {
		work = append(work, compile.Work{Group: compile.Rest, Kind: "gradients", Kernels: kernels, Dispatches: dispatches, Work: gpu.Work{Bytes: float64(bytes)}})
	}
	if len(d.begin) > 0 {
		gradients("zero", 0, d.grads.Bytes())
	}
	if dispatches, bytes := d.sums.work(); bytes > 0 {
		gradients("sum", dispatches, bytes)
	}
	tx := s.own.Transform
	return append(work, compile.Work{
		Group: "optimizer", Kind: "update", Kernels: tx.Name(), Dispatches: s.updater.Program().Dispatches(), Work: tx.Cost().Work(s.own.Params.Layout().Elements()),
	})
}
