package scaling

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
	"gputrain/gpu"
	"gputrain/internal/ranks/cluster"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/schedule"
	"gputrain/internal/system"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/fit"
	"gputrain/run/runfile"
	"gputrain/state"
)

// Table is how a run scales: computed, not measured.
type Table struct {
	Network Speeds `json:"speeds"`
	Steps   []Step `json:"steps"` // of 1, 2, 4 replicas and so on, each with the update whole and divided

	each int // ranks of a replica
}

// MessageSeconds is Speeds.Message where nothing measures it: TCP between machines.
const MessageSeconds = 50e-6

var networkSpeed = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(G|M)(?:bit)?(?:/s)?$`)

// ParseNetwork reads "10Gbit" as bytes a second.
func ParseNetwork(text string) (float64, error) {
	m := networkSpeed.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("--network: found %q, wanted a speed such as 10Gbit or 500Mbit", text)
	}
	bits, err := strconv.ParseFloat(m[1], 64)
	if err != nil || !(bits > 0) {
		return 0, fmt.Errorf("--network: found %q, wanted more than 0", text)
	}
	return bits * map[string]float64{"G": 1e9, "M": 1e6}[m[2]] / 8, nil
}

// Run is a run that is to be scaled: what it is on one rank, and how fast that is.
type Run struct {
	Config pipeline.Config // with its state
	Units  []partition.Unit
	Cut    partition.Assignment
	Powers []partition.Power
	On     []*gpu.Device // that the stages live on, whose speed counts in updates; dry ones will do
	Again  float64       // of a forward pass, by operations, which is computed again
	Ranks  []int         // of the stages, within one pipeline; nil: each rank has all
	Each   int           // ranks that have a replica of the model between them
}

// playedAlone is how many microbatches a plan plays of one stage, which takes one like another and never waits; it plays as many more as the picture's
// last digits want.
const playedAlone = 1000

// Played is how many microbatches a plan plays.
func Played(microbatches, stages int) int {
	if stages > 1 || microbatches < playedAlone {
		return microbatches
	}
	return playedAlone + microbatches%10
}

// most is the most of something that a rank has, of what its stages have.
func (r Run) most(of func(stage int) uint64) uint64 {
	sums := make([]uint64, r.Each)
	for stage := range r.Cut.Stages {
		rank := 0
		if r.Ranks != nil {
			rank = r.Ranks[stage]
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

// Job is what is counted of it.
func (r Run) Job(ctx context.Context) (Job, error) {
	c, err := state.NewJob(r.Config.State)
	if err != nil {
		return Job{}, err
	}
	trained, _ := c.Divide()
	tx, err := c.Transform()
	if err != nil {
		return Job{}, err
	}
	j := Job{Microbatches: c.Microbatches}
	stages := make([][]buffers.Spec, r.Cut.Stages)
	for _, s := range trained {
		stage := r.Cut.Part[s.Path] % r.Cut.Stages
		stages[stage] = append(stages[stage], s)
	}
	j.Elements = r.most(func(stage int) uint64 { return elements(stages[stage]) })
	j.Passes = func(n int) (seconds, idle float64) {
		order, err := schedule.New(schedule.Config{Name: r.Config.Schedule, Stages: r.Cut.Stages, Chunks: r.Cut.Parts / r.Cut.Stages, Microbatches: Played(n, r.Cut.Stages), Ahead: r.Config.Ahead})
		if err != nil {
			panic("scaling: " + err.Error()) // it is made already, for as many microbatches or more
		}
		s := r.Cut.Expect(order, r.Units, r.Powers, r.Again)
		for _, i := range s.Idle {
			idle += i / float64(len(s.Idle))
		}
		return s.Makespan * float64(n) / float64(order.Microbatches), idle
	}
	j.Update = func(ranks int) (longest float64) {
		for i, leaves := range stages {
			speed, _ := r.On[i].Speed()
			speed.FLOPS = r.Powers[i].FLOPS
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
		run := r.Config
		rank, _ := fullest(c, trained, ranks)
		run.State.Mesh, run.State.Reducer, run.State.ShardOptimizer = mesh.Planned(rank, ranks), planning{}, sharded
		j, err := state.NewJob(run.State)
		if err != nil {
			return 0, err
		}
		memory, err := fit.On{Config: run, Devices: r.On}.Memory(ctx, j)
		if err != nil {
			return 0, err
		}
		return r.most(func(stage int) uint64 { return memory[stage].Total() }), nil
	}
	return j, nil
}

// fullest is the rank that updates the most elements, if ranks divide the update, and how many these are.
func fullest(c state.Job, leaves []buffers.Spec, ranks int) (rank int, most uint64) {
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

// table computes the steps of up to so many replicas, each on some ranks.
func (j Job) table(s Speeds, replicas, each int) (*Table, error) {
	out := &Table{Network: s, each: each}
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
				return nil, err
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
		took := system.Stopwatch()
		for i, t := range terms {
			sums[i] += t
		}
		best = min(best, took())
	}
	return float64(4*len(terms)) / best.Seconds()
}

// Table computes the steps of up to so many ranks. The devices' speeds are those that the run is planned with, their copies the slowest that were measured.
func (r Run) Table(ctx context.Context, ranks int, network float64) (*Table, error) {
	copies := r.Powers[0].BytesPerSecond
	for _, power := range r.Powers {
		copies = min(copies, power.BytesPerSecond)
	}
	if r.Each > 1 { // what crosses a cut takes the network
		r.Powers = slices.Clone(r.Powers)
		for i := range r.Powers {
			r.Powers[i].BytesPerSecond = min(r.Powers[i].BytesPerSecond, network)
		}
	}
	j, err := r.Job(ctx)
	if err != nil {
		return nil, err
	}
	return j.table(Speeds{Network: network, Message: MessageSeconds, Copy: copies, Add: hostAdds()}, ranks/r.Each, r.Each)
}

// Write prints the table.
func (r *Table) Write(out io.Writer) error {
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
			s.Sum, s.Update, s.Gather, 100*s.Transfer, 100*s.Efficiency, runfile.FormatBytes(uint64(s.Sent)), runfile.FormatBytes(s.Memory))
	}
	return w.Flush()
}
