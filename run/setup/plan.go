package setup

import (
	"context"
	"errors"

	"gputrain/gpu"
	"gputrain/run/runfile"
)

// OpenPlanned opens the devices that the stages of a run are planned with, and tells the adapter of each. Where the stages are on several ranks this
// machine stands for all: of another rank it takes the adapter of the same number, or where it has none, or auto, what sel or the machine says.
// These devices are without hardware and share nothing with those of this process. How much memory they have is unknown.
func OpenPlanned(ctx context.Context, cfg *runfile.Config, sel string) (devices []*gpu.Device, adapters []gpu.Adapter, release func(), err error) {
	ranks := cfg.Pipeline.Ranks()
	if adapters, err = plannedAdapters(cfg, ranks, sel); err != nil {
		return nil, nil, nil, err
	}
	options, err := DeviceOptions(cfg, adapters...)
	if err != nil {
		return nil, nil, nil, err
	}
	if devices, release, err = OpenStages(ctx, cfg, adapters, options); err != nil {
		return nil, nil, nil, err
	}
	type place struct{ rank, stage, index int }
	stands := map[place]*gpu.Device{}
	for stage, rank := range ranks {
		if rank == 0 {
			continue
		}
		at := place{rank: rank, index: adapters[stage].Index}
		if cfg.Pipeline.Devices == "stage" {
			at.stage = stage
		}
		if stands[at] == nil {
			stands[at] = standIn(devices[stage], -1-len(stands))
		}
		devices[stage] = stands[at]
	}
	return devices, adapters, release, nil
}

// standIn is a device like d of another machine, which has an adapter of that number.
func standIn(d *gpu.Device, index int) *gpu.Device {
	a := d.Adapter()
	a.Index, a.Limits.Software = index, false // it takes nothing of this machine's memory
	out := gpu.DryOf(a, d.Limits())
	speed, _ := d.Speed()
	out.Assume(speed, d.SubmitLimit())
	return out
}

// plannedAdapters are the adapters of this machine that stages are planned with.
func plannedAdapters(cfg *runfile.Config, ranks []int, sel string) ([]gpu.Adapter, error) {
	if ranks == nil {
		return Adapters(cfg, sel)
	}
	own, err := RankAdapters(cfg, 0, sel, "")
	if err != nil {
		return nil, err
	}
	all, err := gpu.Adapters()
	if err != nil {
		return nil, err
	}
	var out []gpu.Adapter
	for stage, rank := range ranks {
		var a gpu.Adapter
		index := cfg.Pipeline.AdapterOf(stage).Index
		switch {
		case rank == 0:
			a, own = own[0], own[1:]
		case sel == "" && index != runfile.AutoIndex && index < len(all):
			a = all[index]
		default:
			if a, err = gpu.Select(sel); err != nil && !errors.Is(err, gpu.ErrNoAdapter) {
				err = &UsageError{err}
			}
			if err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	return out, nil
}
