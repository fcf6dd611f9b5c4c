// Package scaling computes what a training step takes on many ranks, from what is counted of a run and from speeds. It needs no device, no network and no
// rank; tools/lab-book.md says which of the figures that go in are measured.
//
// A step is, one after the other:
//
//	passes    of the rank with the most microbatches, as a schedule of its stages plays them
//	sum       of gradients, in buckets, each of which is read back, sent, added up and written while others are
//	update    of all leaves, or of the leaves of the rank with the most work
//	gather    of the parameters that others have updated
//
// What has the slowest of the four parts of a sum, or of a gather, is what that takes. Beside these a step exchanges figures of a few bytes,
// which count as messages.
package scaling

import "math"

// Job is what is counted of a run.
type Job struct {
	Microbatches int // of an update, of all ranks
	Elements     uint64
	// Passes is how long a rank is at the passes of so many microbatches, in seconds, and the mean share in which its stages wait.
	Passes func(microbatches int) (seconds, idle float64)
	// Update is how long the rank with the most work is at its part of the update, in seconds; 1 has all.
	Update func(ranks int) float64
	// Share is the largest share of the elements that one of so many ranks updates.
	Share func(ranks int) float64
	// Memory is what the rank that takes most takes, all its stages together, in bytes.
	Memory func(ranks int, sharded bool) (uint64, error)
}

// Speeds are those of a rank.
type Speeds struct {
	Network float64 // bytes a second, each way
	Message float64 // seconds that a rank is busy with a message beside its bytes
	Copy    float64 // bytes a second between a device and the host, each way
	Add     float64 // bytes of terms a second that the host adds up
	Bucket  float64 // bytes of gradients that travel together
}

// Step is what a step takes on some ranks. Times in seconds.
type Step struct {
	Ranks        int     `json:"ranks"`
	Sharded      bool    `json:"shard_optimizer"`
	Microbatches int     `json:"microbatches"` // of the rank with the most
	Passes       float64 `json:"passes_s"`
	Bubble       float64 `json:"bubble"` // mean share of the passes in which stages wait
	Sum          float64 `json:"sum_s"`
	Update       float64 `json:"update_s"`
	Gather       float64 `json:"gather_s"`
	Seconds      float64 `json:"seconds"`
	Transfer     float64 `json:"transfer"`   // share of the step
	Efficiency   float64 `json:"efficiency"` // speed a rank, of that of one rank alone
	Sent         float64 `json:"sent_bytes"` // by the rank that sends most
	Memory       uint64  `json:"memory_bytes"`
}

// On is a step on so many ranks, whose optimizer state is divided or not.
func (j Job) On(ranks int, sharded bool, s Speeds) (Step, error) {
	alone := j.times(1, false, s)
	out := j.times(ranks, sharded, s)
	out.Efficiency = alone.Seconds / out.Seconds / float64(ranks)
	var err error
	out.Memory, err = j.Memory(ranks, out.Sharded)
	return out, err
}

func (j Job) times(ranks int, sharded bool, s Speeds) Step {
	out := Step{Ranks: ranks, Sharded: sharded && ranks > 1, Microbatches: (j.Microbatches + ranks - 1) / ranks}
	out.Passes, out.Bubble = j.Passes(out.Microbatches)
	part := 1
	if out.Sharded {
		part = ranks
	}
	out.Update = j.Update(part)
	if ranks > 1 {
		j.exchange(&out, s)
	}
	out.Seconds = out.Passes + out.Sum + out.Update + out.Gather
	out.Transfer = (out.Sum + out.Gather) / out.Seconds
	return out
}

// exchange counts what ranks send each other. Each adds up a piece of every bucket, of which it gets all other partial sums. Where the update is whole it
// sends the total to all. Where it is divided a piece is of what the rank updates, as far as that goes, and of what others do, to whom it sends the
// total; they send it that piece of the new parameters, and it sends its piece to all. The rank that updates the most receives the most of a sum, and
// sends the most of a gather; the others are taken to update alike. Buckets are taken to be full.
func (j Job) exchange(out *Step, s Speeds) {
	ranks, bytes := float64(out.Ranks), 4*float64(j.Elements)
	partials, piece, buckets := float64(min(out.Ranks, j.Microbatches)), bytes/ranks, math.Ceil(bytes/s.Bucket)
	others := ranks - 1
	if !out.Sharded {
		out.Sent = bytes - piece + others*piece
		busy := 2 * others * buckets * s.Message
		out.Sum = max(bytes/s.Copy, out.Sent/s.Network+busy, partials*piece/s.Add)
		return
	}
	own := bytes * j.Share(out.Ranks) // piece or more
	least := (bytes - own) / others
	excess := own - piece
	busy := others * (buckets + math.Ceil(own/s.Bucket)) * s.Message
	out.Sum = max(bytes/s.Copy, max(others*piece+excess, bytes-least)/s.Network+busy, partials*piece/s.Add)
	handed := own + (others-1)*piece
	out.Gather = max((bytes-least)/s.Copy, max(handed, bytes-least)/s.Network+busy)
	out.Sent = bytes - piece + handed
}
