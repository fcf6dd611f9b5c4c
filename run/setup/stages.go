package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/runfile"
	"gputrain/state"
)

// Adapters is the adapter of each stage of a process that has all of them: those of the run file, or for all one that sel names as --adapter does, else
// GPUTRAIN_ADAPTER's or the fastest.
func Adapters(cfg *runfile.Config, sel string) ([]gpu.Adapter, error) {
	if n := cfg.Pipeline.PerReplica(); n > 1 {
		return nil, aloneError(cfg, n)
	}
	return RankAdapters(cfg, 0, sel, "")
}

// RankAdapters is the adapter of each stage that is on a rank, counted within its pipeline. own selects what the rank takes by itself.
func RankAdapters(cfg *runfile.Config, rank int, sel, own string) (out []gpu.Adapter, err error) {
	p := cfg.Pipeline
	ranks := p.Ranks()
	for stage := range p.Stages {
		if ranks != nil && ranks[stage] != rank {
			continue
		}
		var a gpu.Adapter
		if sel == "" && len(p.Adapters) > 0 && p.AdapterOf(stage).Index != runfile.AutoIndex {
			a, err = numbered(cfg, p.AdapterOf(stage).Index)
		} else if a, err = gpu.Select(cmp.Or(sel, own)); err != nil && !errors.Is(err, gpu.ErrNoAdapter) {
			err = &UsageError{err}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// numbered is the adapter of a number that the run file has.
func numbered(cfg *runfile.Config, index int) (gpu.Adapter, error) {
	all, err := gpu.Adapters()
	if err != nil {
		return gpu.Adapter{}, err
	}
	if index >= len(all) {
		var names []string
		for _, a := range all {
			names = append(names, a.String())
		}
		return gpu.Adapter{}, &UsageError{cfg.Wrong("pipeline.adapters", fmt.Errorf("found adapter %d, wanted 0 to %d: gputrain devices lists them: %s",
			index, len(all)-1, strings.Join(names, "; ")))}
	}
	return all[index], nil
}

// DeviceOptions are those of the run file for devices on these adapters.
func DeviceOptions(cfg *runfile.Config, adapters ...gpu.Adapter) (o gpu.Options, err error) {
	if o.MemoryLimit, err = runfile.ParseBytes(cfg.Train.MemoryLimit); err != nil {
		return o, &UsageError{err}
	}
	if o.Texels, err = gpu.ParseTexelUse(cfg.Device.Texels); err != nil {
		return o, &UsageError{err}
	}
	if o.SubmitLimit = cfg.Device.SubmitLimit.Time(); o.SubmitLimit == 0 {
		o.SubmitLimit = -1
	}
	o.Matrix = cfg.Device.Matrix == "auto" && cfg.Train.Products == "f16"
	for _, a := range adapters {
		if o.Texels > gpu.TexelsOff && a.Limits.TexelBindings == 0 {
			return o, &UsageError{cfg.Wrong("device.texels", fmt.Errorf("found %s, which reads no textures, with %s: wanted auto or off", o.Texels, a))}
		}
	}
	return o, nil
}

// OpenStages opens a device for each stage; stages of one adapter share it, unless pipeline.devices is stage.
func OpenStages(ctx context.Context, cfg *runfile.Config, adapters []gpu.Adapter, o gpu.Options) (devices []*gpu.Device, release func(), err error) {
	var opened []*gpu.Device
	release = func() {
		for _, d := range opened {
			d.Release()
		}
	}
	shared := map[int]*gpu.Device{}
	for _, a := range adapters {
		d := shared[a.Index]
		if d == nil || cfg.Pipeline.Devices == "stage" {
			if d, err = gpu.Open(ctx, a, o); err != nil {
				release()
				return nil, nil, err
			}
			opened = append(opened, d)
			shared[a.Index] = d
		}
		devices = append(devices, d)
	}
	return devices, release, nil
}

// Units is what a run's model can be cut into. It refuses rules that do not cut it, and more stages than there are units, before any
// device is open.
func Units(cfg *runfile.Config, c state.Config) ([]partition.Unit, error) {
	job, err := state.NewJob(c)
	if err != nil {
		return nil, &UsageError{err}
	}
	built, err := job.Build()
	if err != nil {
		return nil, &UsageError{err}
	}
	units, err := partition.Units(built, c.Frozen...)
	if err != nil {
		return nil, err
	}
	if _, err := assign(cfg, units, nil); err != nil {
		key := "pipeline.stages"
		if len(cfg.Pipeline.Rules) > 0 {
			key = "pipeline.rules"
		}
		return nil, &UsageError{cfg.Wrong(key, err)}
	}
	return units, nil
}

// Cut cuts a model for the devices of its stages, whose powers it returns too; units get the memory of the run's optimizer and of its sums of gradients.
func Cut(ctx context.Context, cfg *runfile.Config, c state.Config, units []partition.Unit, devices []*gpu.Device) (partition.Assignment, []partition.Power, error) {
	powers, err := pipeline.Powers(ctx, devices)
	if err != nil {
		return partition.Assignment{}, nil, err
	}
	a, err := cutBy(cfg, c, units, devices[0].Limits(), powers)
	return a, powers, err
}

// cutBy is Cut for stages of these powers, the first with these limits. Where it finds no cut that fits, it is the fastest: the memory plan of that tells
// what does not fit, and what to lower.
func cutBy(cfg *runfile.Config, c state.Config, units []partition.Unit, lim gpu.Limits, powers []partition.Power) (partition.Assignment, error) {
	if cfg.Pipeline.Stages*cfg.Pipeline.PartsPerStage() == 1 { // the memory plan tells whether it fits, and what to lower
		return assign(cfg, units, nil)
	}
	job, err := state.NewJob(c)
	if err != nil {
		return partition.Assignment{}, err
	}
	tx, err := job.Transform()
	if err == nil {
		err = partition.AddOptimizer(units, tx, job.PartialSums(), c.FrozenDType, model.Specs(c.Definition), lim)
	}
	if err != nil {
		return partition.Assignment{}, err
	}
	a, err := assign(cfg, units, powers)
	if !errors.Is(err, gpu.ErrOutOfMemory) {
		return a, err
	}
	powers = slices.Clone(powers)
	for i := range powers {
		powers[i].Memory = 0
	}
	return assign(cfg, units, powers)
}

// assign cuts a model by the run file's rules, else so that the slowest stage is fastest; nil powers are stages that are all alike.
func assign(cfg *runfile.Config, units []partition.Unit, powers []partition.Power) (partition.Assignment, error) {
	p := cfg.Pipeline
	if len(p.Rules) == 0 {
		return partition.Auto(units, p.Stages, p.PartsPerStage(), powers)
	}
	return partition.ByRules(units, p.Rules, p.Stages, p.PartsPerStage())
}

// Pipeline is what a run file says of its pipeline; what is trained is the run's to say.
func Pipeline(cfg *runfile.Config, cut partition.Assignment) pipeline.Config {
	p := cfg.Pipeline
	return pipeline.Config{Assignment: cut, Schedule: p.Schedule, Ahead: p.Ahead}
}
