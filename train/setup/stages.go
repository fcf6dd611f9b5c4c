package setup

import (
	"context"
	"errors"
	"fmt"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
	"gputrain/train/runfile"
)

// Adapters is the adapter of each stage: those of the run file, or for all one that sel names as --adapter does, else GPUTRAIN_ADAPTER's or
// the fastest.
func Adapters(cfg *runfile.Config, sel string) ([]gpu.Adapter, error) {
	p := cfg.Pipeline
	out := make([]gpu.Adapter, p.Stages)
	if sel != "" || len(p.Adapters) == 0 {
		a, err := gpu.Select(sel)
		if err != nil && !errors.Is(err, gpu.ErrNoAdapter) {
			err = &UsageError{err}
		}
		for i := range out {
			out[i] = a
		}
		return out, err
	}
	all, err := gpu.Adapters()
	if err != nil {
		return nil, err
	}
	for i := range out {
		index := p.Adapters[min(i, len(p.Adapters)-1)]
		if index >= len(all) {
			return nil, &UsageError{fmt.Errorf("run file: pipeline.adapters (%s): found adapter %d, wanted 0 to %d: gputrain devices lists them", cfg.Origin("pipeline.adapters"), index, len(all)-1)}
		}
		out[i] = all[index]
	}
	return out, nil
}

// DeviceOptions are those of the run file for devices on these adapters.
func DeviceOptions(cfg *runfile.Config, adapters ...gpu.Adapter) (o gpu.Options, err error) {
	if o.MemoryLimit, err = runfile.ParseBytes(cfg.Train.MemoryLimit); err != nil {
		return o, &UsageError{err}
	}
	if o.Texels, err = gpu.ParseTexelUse(cfg.Device.Texels); err != nil {
		return o, &UsageError{err}
	}
	if o.SubmitLimit, err = runfile.ParseDuration(cfg.Device.SubmitLimit); err != nil {
		return o, &UsageError{err}
	}
	if o.SubmitLimit == 0 {
		o.SubmitLimit = -1
	}
	for _, a := range adapters {
		if o.Texels > gpu.TexelsOff && a.Limits.TexelBindings == 0 {
			return o, &UsageError{fmt.Errorf("run file: device.texels (%s): found %s, which reads no textures, with %s: wanted auto or off", cfg.Origin("device.texels"), o.Texels, a)}
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
	built, err := c.Build()
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
		return nil, &UsageError{fmt.Errorf("run file: %s (%s): %w", key, cfg.Origin(key), err)}
	}
	return units, nil
}

// Cut cuts a model for the devices of its stages, whose powers it returns too; units get the memory of the run's optimizer and of its sums of gradients.
func Cut(ctx context.Context, cfg *runfile.Config, c state.Config, units []partition.Unit, devices []*gpu.Device) (partition.Assignment, []partition.Power, error) {
	tx, err := c.Transform()
	if err == nil {
		err = partition.AddOptimizer(units, tx, c.PartialSums(), model.Specs(c.Definition), devices[0].Limits())
	}
	if err != nil {
		return partition.Assignment{}, nil, err
	}
	powers, err := pipeline.Powers(ctx, devices)
	if err != nil {
		return partition.Assignment{}, nil, err
	}
	a, err := assign(cfg, units, powers)
	return a, powers, err
}

// assign cuts a model by the run file's rules, else so that the slowest stage is fastest; nil powers are stages that are all alike.
func assign(cfg *runfile.Config, units []partition.Unit, powers []partition.Power) (partition.Assignment, error) {
	p := cfg.Pipeline
	if len(p.Rules) == 0 {
		return partition.Auto(units, p.Stages, p.PartsPerStage(), powers)
	}
	var rules []partition.Rule
	for _, r := range p.Rules {
		rules = append(rules, partition.Rule(r))
	}
	return partition.ByRules(units, rules, p.Stages, p.PartsPerStage())
}

// Pipeline is what a run file says of its pipeline; what is trained is the run's to say.
func Pipeline(cfg *runfile.Config, cut partition.Assignment) pipeline.Config {
	p := cfg.Pipeline
	return pipeline.Config{Assignment: cut, Schedule: p.Schedule, Ahead: p.Ahead}
}
