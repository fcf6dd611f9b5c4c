package state

import (
	"cmp"
	"context"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph/compile"
)

// The gradients of the last layers are final long before a backward pass ends. Where a Reducer waits for them, the passes of the last microbatch of a
// share are submitted in pieces, cut where enough of the gradients have become final, and these are read back right behind their piece:
//
//	compute, part 0  sum of its leaves  read-backs | compute, part 1  sum of its leaves  read-backs | ...
//
// The commands and their order stay, but for the sums, which go element by element in any order. So pieces change no bit.

// ReadAhead is how many bytes of gradients may wait beside a device for a Reducer to take them: enough for pieces of the same size, little next to a model.
const ReadAhead = 32 << 20

// Making is how the newest of a replica's partial sums comes to be; the older ones are final before.
type Making struct {
	// Final is the moment from which on a leaf of a stage is final: nothing that the passes do later uses it. Moments come in their order on each device.
	Final func(stage int, leaf buffers.Leaf) (moment int)
	// Make runs the passes of the update, once. They may still be under way when it returns.
	Make func(ctx context.Context, behind Behind) error
}

// Behind gives the programs that a device is to run at once when a moment has come, and what to call when they are submitted. nil: none.
type Behind func(dev *gpu.Device, moment int) (programs []*gpu.Program, submitted func())

// Add puts the programs of a moment behind those that lead to it.
func (b Behind) Add(dev *gpu.Device, moment int, programs []*gpu.Program) (_ []*gpu.Program, submitted func()) {
	if b == nil {
		return programs, func() {}
	}
	more, submitted := b(dev, moment)
	return append(programs, more...), submitted
}

// least is how many bytes of gradients, of so many in all, have to be final for a cut: those of a bucket, of as many as may wait, or a quarter of all, for
// every piece costs a submit. 0: passes are not cut.
func (c Config) least(all uint64) uint64 {
	if c.bucket() == 0 {
		return 0
	}
	return max(c.bucket(), min(ReadAhead, all/4))
}

// bucket is how many bytes of gradients travel together; 0: none do.
func (c Config) bucket() uint64 {
	if _, replicas := c.replicas(); replicas == 1 {
		return 0
	}
	return uint64(c.Reducer.Bucket())
}

// ReadAheadBytes is what a Reducer takes of a device with gradients of so many bytes.
func (c Config) ReadAheadBytes(gradients uint64) uint64 {
	if c.bucket() == 0 {
		return 0
	}
	return min(max(c.bucket(), ReadAhead), uint64(len(c.Share().Nodes(max(c.Microbatches, 1))))*gradients)
}

// cut divides the commands of a program into pieces that each make at least so many bytes of gradients final, but for the last; 0: one piece. ends are those of
// the pieces, and final is the piece of each leaf; those that it lacks are final in the first.
func cut(p *compile.Program, grads *buffers.Tree, bytes uint64) (ends []int, final map[string]int) {
	if bytes == 0 {
		return []int{p.Plan().Dispatches}, nil
	}
	type made struct {
		path  string
		until int
		bytes uint64
	}
	var all []made
	for _, leaf := range grads.Layout().Leaves() {
		m := made{path: leaf.Path}
		for _, part := range leaf.Parts {
			r := grads.Part(part)
			m.until, m.bytes = max(m.until, p.Until(r)), m.bytes+r.Bytes
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b made) int { return cmp.Compare(a.until, b.until) })
	sum, from := uint64(0), 0
	final = map[string]int{}
	for i, m := range all {
		if sum >= bytes && m.until > all[i-1].until && all[i-1].until > from {
			from, sum = all[i-1].until, 0
			ends = append(ends, from)
		}
		final[m.path], sum = len(ends), sum+m.bytes
	}
	return append(ends, p.Plan().Dispatches), final
}
