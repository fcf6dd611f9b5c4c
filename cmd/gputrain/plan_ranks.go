package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"gputrain/buffers"
	"gputrain/cluster"
	"gputrain/cluster/scaling"
	"gputrain/gpu"
	"gputrain/mesh"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/pipeline/schedule"
	"gputrain/state"
)

// plannedRanks is how a run scales: computed, not measured.
type plannedRanks struct {
	Network scaling.Speeds `json:"speeds"`
	Steps   []scaling.Step `json:"steps"` // of 1, 2, 4 replicas and so on, each with the update whole and divided

	each int // ranks of a replica
}

// What a rank is taken for where nothing measures it.
const messageSeconds = 50e-6 // TCP between machines

var networkSpeed = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(G|M)(?:bit)?(?:/s)?$`)

// parseNetwork reads "10Gbit" as bytes a second.
func parseNetwork(text string) (float64, error) {
	m := networkSpeed.FindStringSubmatch(text)
	if m == nil {
		return 0, usageError{fmt.Errorf("--network: found %q, wanted a speed such as 10Gbit or 500Mbit", text)}
	}
	bits, err := strconv.ParseFloat(m[1], 64)
	if err != nil || !(bits > 0) {
		return 0, usageError{fmt.Errorf("--network: found %q, wanted more than 0", text)}
	}
	return bits * map[string]float64{"G": 1e9, "M": 1e6}[m[2]] / 8, nil
}

// scaled is a run that is to be scaled: what it is on one rank, and how fast that is.
type scaled struct {
	run    pipeline.Config // with its state
	units  []partition.Unit
	cut    partition.Assignment
	powers []partition.Power
	on     []*gpu.Device // that the stages live on, whose speed counts in updates; dry ones will do
	again  float64
	ranks  []int // of the stages, within one pipeline; nil: each rank has all
	each   int   // ranks that have a replica of the model between them
}

// most is the most of something that a rank has, of what its stages have.
func (r scaled) most(of func(stage int) uint64) uint64 {
	sums := make([]uint64, r.each)
	for stage := range r.cut.Stages {
		rank := 0
		if r.ranks != nil {
			rank = r.ranks[stage]
		}
		sums[rank] += of(stage)
	}
	return slices.Max(sums)
}

// elements are those of some leaves.
func elements(leaves []buffers.Spec) (n uint64) {
	for _, s := range leaves {
		n += uint64(buffers.Leaf{Shape: s.Shape}.Elements())
	}
	return n
}

// job is what is counted of it.
func (r scaled) job(ctx context.Context) (scaling.Job, error) {
	c := r.run.State
	trained, _ := c.Divide()
	tx, err := c.Transform()
	if err != nil {
		return scaling.Job{}, err
	}
	j := scaling.Job{Microbatches: c.Microbatches}
	stages := make([][]buffers.Spec, r.cut.Stages)
	for _, s := range trained {
		stage := r.cut.Part[s.Path] % r.cut.Stages
		stages[stage] = append(stages[stage], s)
	}
	j.Elements = r.most(func(stage int) uint64 { return elements(stages[stage]) })
	j.Passes = func(n int) (seconds, idle float64) {
		order, err := schedule.New(schedule.Config{Name: r.run.Schedule, Stages: r.cut.Stages, Chunks: r.cut.Parts / r.cut.Stages, Microbatches: played(n, r.cut.Stages), Ahead: r.run.Ahead})
		if err != nil {
			panic("gputrain: plan: " + err.Error()) // it is made already, for as many microbatches or more
		}
		s := r.cut.Expect(order, r.units, r.powers, r.again)
		for _, i := range s.Idle {
			idle += i / float64(len(s.Idle))
		}
		return s.Makespan * float64(n) / float64(order.Microbatches), idle
	}
	j.Update = func(ranks int) (longest float64) {
		for i, leaves := range stages {
			speed, _ := r.on[i].Speed()
			speed.FLOPS = r.powers[i].FLOPS
			parts, work, _ := c.Deal(leaves, ranks) // whose errors Transform has had
			for _, part := range parts {
				seconds := 0.0
				for _, leaf := range part {
					n := float64(buffers.Leaf{Shape: leaf.Shape}.Elements())
					seconds += speed.Seconds(gpu.Work{FLOPs: 2 * work[leaf.Path], Bytes: tx.Cost().TrafficBytes * n})
				}
				longest = max(longest, seconds)
			}
		}
		return longest
	}
	j.Share = func(ranks int) float64 {
		return float64(r.most(func(stage int) uint64 {
			_, most := fullest(c, stages[stage], ranks)
			return most
		})) / float64(j.Elements)
	}
	j.Memory = func(ranks int, sharded bool) (uint64, error) {
		run := r.run
		rank, _ := fullest(c, trained, ranks)
		run.State.Mesh, run.State.Reducer, run.State.ShardOptimizer = mesh.Planned(rank, ranks), planning{}, sharded
		memory, err := memoryOf(ctx, run, r.on)
		if err != nil {
			return 0, err
		}
		return r.most(func(stage int) uint64 { return memory[stage].Total() }), nil
	}
	return j, nil
}

// fullest is the rank that updates the most elements, if ranks divide the update, and how many these are.
func fullest(c state.Config, leaves []buffers.Spec, ranks int) (rank int, most uint64) {
	parts, _, _ := c.Deal(leaves, ranks) // whose errors Transform has had
	for i, part := range parts {
		if n := elements(part); n > most {
			rank, most = i, n
		}
	}
	return rank, most
}

// planning is the reducer of a plan: it adds up nothing.
type planning struct{ state.Reducer }

// scale computes the steps of up to so many replicas, each on some ranks.
func scale(j scaling.Job, s scaling.Speeds, replicas, each int) (out plannedRanks, err error) {
	out.Network, out.each = s, each
	counts := []int{}
	for n := 1; n < replicas; n *= 2 {
		counts = append(counts, n)
	}
	for _, n := range append(counts, replicas) {
		s.Bucket = float64(cluster.DefaultBucket(n))
		for _, sharded := range []bool{false, true} {
			if n == 1 && sharded {
				continue
			}
			step, err := j.On(n, sharded, s)
			if err != nil {
				return out, err
			}
			step.Ranks *= each
			out.Steps = append(out.Steps, step)
		}
	}
	return out, nil
}

// hostAdds measures how many bytes of terms a second this machine adds up.
func hostAdds() float64 {
	sums, terms := make([]float32, 1<<20), make([]float32, 1<<20)
	best := time.Duration(1 << 62)
	for range 5 {
		begun := time.Now()
		for i, t := range terms {
			sums[i] += t
		}
		best = min(best, time.Since(begun))
	}
	return float64(4*len(terms)) / best.Seconds()
}

// addRanks says how the run scales. The devices' speeds are those that it is planned with, their copies the slowest that were measured.
func (p *planned) addRanks(ctx context.Context, r scaled, ranks int, network float64) error {
	r.run.State.Recompute = p.Recompute
	r.again = p.again
	copies := r.powers[0].BytesPerSecond
	for _, power := range r.powers {
		copies = min(copies, power.BytesPerSecond)
	}
	each := r.each
	if each > 1 { // what crosses a cut takes the network
		r.powers = slices.Clone(r.powers)
		for i := range r.powers {
			r.powers[i].BytesPerSecond = min(r.powers[i].BytesPerSecond, network)
		}
	}
	j, err := r.job(ctx)
	if err != nil {
		return err
	}
	found, err := scale(j, scaling.Speeds{Network: network, Message: messageSeconds, Copy: copies, Add: hostAdds()}, ranks/each, each)
	p.Ranks = &found
	return err
}

func (r *plannedRanks) write(out io.Writer) error {
	kind := "ranks of this kind"
	if r.each > 1 {
		kind = fmt.Sprintf("replicas on %d ranks each", r.each)
	}
	fmt.Fprintf(out, "\n%s, joined by %.3g Gbit/s: computed, with %.3g GB/s of copies to the host and %.3g GB/s of its additions, as measured here\n\n",
		kind, 8*r.Network.Network/1e9, r.Network.Copy/1e9, r.Network.Add/1e9)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RANKS\tOPTIMIZER\tBATCHES\tSTEP, S\tPASSES\tBUBBLE\tSUM\tUPDATE\tGATHER\tTRANSFER\tEFFICIENCY\tSENT\tMEMORY")
	for _, s := range r.Steps {
		update := "whole"
		if s.Sharded {
			update = "divided"
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%.3g\t%.3g\t%.0f %%\t%.3g\t%.3g\t%.3g\t%.0f %%\t%.0f %%\t%s\t%s\n", s.Ranks, update, s.Microbatches, s.Seconds, s.Passes, 100*s.Bubble,
			s.Sum, s.Update, s.Gather, 100*s.Transfer, 100*s.Efficiency, size(uint64(s.Sent)), size(s.Memory))
	}
	return w.Flush()
}
