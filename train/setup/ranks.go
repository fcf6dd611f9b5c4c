package setup

import (
	"context"
	"encoding/json"
	"fmt"

	"gputrain/cluster"
	"gputrain/gpu"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
	"gputrain/train/runfile"
	"gputrain/transport"
)

// Where the stages of a run are on several ranks, each opens the adapters of its own and tells the others what they are. Then all cut the model alike: by
// the same figures, those of the first replica.

// Ranks says on which of a group's ranks the stages of a run file are; nil: each rank has all of them. All ranks call it, and end here where their run
// files say otherwise.
func Ranks(ctx context.Context, cfg *runfile.Config, group *cluster.Group) (*pipeline.Ranks, error) {
	text, err := json.Marshal(cfg.Pipeline.Adapters)
	if err != nil {
		return nil, err
	}
	own := fmt.Appendf(nil, "%s for %d stages", text, cfg.Pipeline.Stages)
	all, err := group.Gather(ctx, "places of the stages", own)
	if err != nil {
		return nil, err
	}
	for rank, found := range all {
		if string(found) != string(all[0]) {
			return nil, &cluster.DifferentError{Rank: rank, Host: group.Host(rank), What: "pipeline.adapters", Found: string(found), Wanted: string(all[0]), First: group.Host(0)}
		}
	}
	stages := cfg.Pipeline.Ranks()
	if stages == nil {
		return nil, nil
	}
	r := &pipeline.Ranks{Of: group, Stages: stages, Patience: group.Patience}
	if err := r.CheckSize(); err != nil {
		return nil, &UsageError{fmt.Errorf("run file: pipeline.adapters (%s): %w", cfg.Origin("pipeline.adapters"), err)}
	}
	return r, nil
}

// aloneError says how a run whose stages are on several ranks is started.
func aloneError(cfg *runfile.Config, ranks int) error {
	return &UsageError{fmt.Errorf("run file: pipeline.adapters (%s): found stages on %d ranks and one process, wanted %d processes or a multiple: mpirun -n %d gputrain train run.yaml",
		cfg.Origin("pipeline.adapters"), ranks, ranks, ranks)}
}

// OnRanks are the stages of a run on several ranks, as one of these has them.
type OnRanks struct {
	Devices []*gpu.Device // in the order of the stages; without hardware where a stage is on another rank

	ranks *pipeline.Ranks
	first []seat // of the first replica
}

// seat is a stage's device as its rank tells the others.
type seat struct {
	Adapter gpu.Adapter
	Limits  gpu.Limits // as it was opened
	Memory  uint64     // that it has to give; 0 is unknown
	Device  int        // of the rank: several stages may have one
}

// OpenOnRanks is OpenStages where stages are on several ranks; adapters are those of the stages of this one.
func OpenOnRanks(ctx context.Context, cfg *runfile.Config, ranks *pipeline.Ranks, adapters []gpu.Adapter, o gpu.Options) (s OnRanks, release func(), err error) {
	own, release, err := OpenStages(ctx, cfg, adapters, o)
	if err != nil {
		return s, nil, err
	}
	if s, err = exchange(ctx, ranks, own); err != nil {
		release()
		return s, nil, err
	}
	return s, release, nil
}

// exchange tells the other ranks of the devices of this one, and makes what stands for theirs.
func exchange(ctx context.Context, ranks *pipeline.Ranks, own []*gpu.Device) (s OnRanks, err error) {
	var mine []seat
	numbers := map[*gpu.Device]int{}
	for _, d := range own {
		if _, known := numbers[d]; !known {
			numbers[d] = len(numbers)
		}
		at := seat{Adapter: d.Adapter(), Limits: d.Limits(), Device: numbers[d]}
		if bytes, _, known := d.Available(); known {
			at.Memory = bytes
		}
		mine = append(mine, at)
	}
	var all [][]seat
	if err := gather(ctx, ranks, "adapters of the stages", mine, &all); err != nil {
		return s, err
	}
	rank, n := ranks.Of.Rank(), ranks.PerReplica()
	dry := map[[2]int]*gpu.Device{}
	for stage, at := range seats(ranks, all[rank-rank%n:]) {
		if of := ranks.Stages[stage]; of == rank%n {
			s.Devices, own = append(s.Devices, own[0]), own[1:]
		} else {
			place := [2]int{of, at.Device}
			if dry[place] == nil {
				dry[place] = gpu.DryOf(at.Adapter, at.Limits)
			}
			s.Devices = append(s.Devices, dry[place])
		}
	}
	s.ranks, s.first = ranks, seats(ranks, all)
	return s, nil
}

// seats are those of a replica by stage, of what its ranks have told.
func seats(ranks *pipeline.Ranks, told [][]seat) (out []seat) {
	next := make([]int, ranks.PerReplica())
	for _, rank := range ranks.Stages {
		out = append(out, told[rank][next[rank]])
		next[rank]++
	}
	return out
}

// gather gives every rank what all have, in the order of their ranks.
func gather[T any](ctx context.Context, ranks *pipeline.Ranks, what string, own T, all *[]T) error {
	raw, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("setup: %s: %w", what, err)
	}
	texts, err := ranks.Of.Gather(ctx, what, raw)
	if err != nil {
		return err
	}
	*all = make([]T, len(texts))
	for rank, text := range texts {
		if err := json.Unmarshal(text, &(*all)[rank]); err != nil {
			return fmt.Errorf("setup: %s: %s: %w", what, transport.Name(rank, ranks.Of.Host(rank)), err)
		}
	}
	return nil
}

// Cut is the cut of a model for these stages; see the function Cut.
func (s OnRanks) Cut(ctx context.Context, cfg *runfile.Config, c state.Config, units []partition.Unit) (partition.Assignment, error) {
	powers, err := s.powers(ctx)
	if err != nil {
		return partition.Assignment{}, err
	}
	return cutBy(cfg, c, units, s.first[0].Limits, powers)
}

// powers are those of the first replica's stages.
func (s OnRanks) powers(ctx context.Context) ([]partition.Power, error) {
	var sites []pipeline.Site
	for stage, at := range s.first {
		sites = append(sites, pipeline.Site{Host: s.ranks.Of.Host(s.ranks.Stages[stage]), Adapter: at.Adapter, Memory: at.Memory})
	}
	var told [][]partition.Power
	if !pipeline.Alike(sites) {
		own := make([]partition.Power, len(sites))
		for stage, rank := range s.ranks.Stages {
			if rank != s.ranks.Of.Rank() {
				continue
			}
			var err error
			if own[stage], err = pipeline.MeasuredPower(ctx, sites[stage].Adapter); err != nil {
				return nil, err
			}
		}
		if err := gather(ctx, s.ranks, "powers of the stages", own, &told); err != nil {
			return nil, err
		}
	}
	return pipeline.PowersAt(sites, func(stage int) (partition.Power, error) { return told[s.ranks.Stages[stage]][stage], nil })
}
