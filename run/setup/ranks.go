package setup

import (
	"context"
	"encoding/json"
	"fmt"

	"gputrain/gpu"
	"gputrain/internal/ranks/cluster"
	"gputrain/internal/ranks/mesh"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/runfile"
	"gputrain/state"
)

// Where the stages of a run are on several ranks, each opens the adapters of its own and tells the others what they are. Then all cut the model alike: by
// the same figures, those of the first replica.

// Divide divides the stages of a run file over the ranks of a mesh, if it says so. All ranks call it, and end here where their run files say otherwise.
func Divide(ctx context.Context, cfg *runfile.Config, m *mesh.Mesh) error {
	text, err := json.Marshal(cfg.Pipeline.Adapters)
	if err != nil {
		return err
	}
	own := fmt.Appendf(nil, "%s for %d stages", text, cfg.Pipeline.Stages)
	all, err := m.Gather(ctx, "places of the stages", own)
	if err != nil {
		return err
	}
	for rank, found := range all {
		if string(found) != string(all[0]) {
			return &cluster.DifferentError{Rank: rank, Host: m.Host(rank), What: "pipeline.adapters", Found: string(found), Wanted: string(all[0]), First: m.Host(0)}
		}
	}
	stages := cfg.Pipeline.Ranks()
	if stages == nil {
		return nil
	}
	if err := m.Divide(stages); err != nil {
		return &UsageError{cfg.Wrong("pipeline.adapters", err)}
	}
	return nil
}

// aloneError says how a run whose stages are on several ranks is started.
func aloneError(cfg *runfile.Config, ranks int) error {
	return &UsageError{cfg.Wrong("pipeline.adapters", fmt.Errorf("found stages on %d ranks and one process, wanted %d processes or a multiple: mpirun -n %d gputrain train run.yaml",
		ranks, ranks, ranks))}
}

// OnRanks are the stages of a run on several ranks, as one of these has them.
type OnRanks struct {
	Devices []*gpu.Device // in the order of the stages; without hardware where a stage is on another rank

	mesh  *mesh.Mesh
	first []seat // of the first replica
}

// seat is a stage's device as its rank tells the others.
type seat struct {
	pipeline.Site
	Limits gpu.Limits // as it was opened
	Device int        // of the rank: several stages may have one
}

// OpenOnRanks is OpenStages where stages are on several ranks; adapters are those of the stages of this one.
func OpenOnRanks(ctx context.Context, cfg *runfile.Config, m *mesh.Mesh, adapters []gpu.Adapter, o gpu.Options) (s OnRanks, release func(), err error) {
	own, release, err := OpenStages(ctx, cfg, adapters, o)
	if err != nil {
		return s, nil, err
	}
	if s, err = exchange(ctx, m, own); err != nil {
		release()
		return s, nil, err
	}
	return s, release, nil
}

// exchange tells the other ranks of the devices of this one, and makes what stands for theirs.
func exchange(ctx context.Context, m *mesh.Mesh, own []*gpu.Device) (s OnRanks, err error) {
	var mine []seat
	numbers := map[*gpu.Device]int{}
	for _, d := range own {
		if _, known := numbers[d]; !known {
			numbers[d] = len(numbers)
		}
		mine = append(mine, seat{pipeline.SiteOf(m.Host(m.Rank()), d), d.Limits(), numbers[d]})
	}
	all, err := mesh.Tell(ctx, m, "adapters of the stages", mine)
	if err != nil {
		return s, err
	}
	dry := map[[2]int]*gpu.Device{}
	replica, _ := m.Replica()
	for stage, at := range seats(m, replica, all) {
		if m.Here(stage) {
			s.Devices, own = append(s.Devices, own[0]), own[1:]
		} else {
			place := [2]int{m.Home(stage), at.Device}
			if dry[place] == nil {
				dry[place] = gpu.DryOf(at.Adapter, at.Limits)
			}
			s.Devices = append(s.Devices, dry[place])
		}
	}
	s.mesh, s.first = m, seats(m, 0, all)
	return s, nil
}

// seats are those of a replica by stage, of what all ranks have told.
func seats(m *mesh.Mesh, replica int, told [][]seat) (out []seat) {
	next := make([]int, m.Size())
	for stage := range m.Divided() {
		rank := m.RankOf(replica, stage)
		out = append(out, told[rank][next[rank]])
		next[rank]++
	}
	return out
}

// Cut is the cut of a model for these stages; see the function Cut.
func (s OnRanks) Cut(ctx context.Context, cfg *runfile.Config, c state.Config, units []partition.Unit) (partition.Assignment, error) {
	var sites []pipeline.Site
	for _, at := range s.first {
		sites = append(sites, at.Site)
	}
	powers, err := pipeline.PowersAt(ctx, s.mesh, sites)
	if err != nil {
		return partition.Assignment{}, err
	}
	return cutBy(cfg, c, units, s.first[0].Limits, powers)
}
