package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"gputrain/gpu"
	"gputrain/pipeline/partition"
)

// Powers tells what the devices of the stages can do, one a stage. Stages whose adapters are equal (name, backend and driver) are not measured:
// a table tells what such adapters do, for only ratios count. Else each kind of adapter is measured once, for less than half a second, and the
// figures are kept on disk by adapter and driver (gpu.Adapter.CacheFile), so that a run that goes on is cut alike. Stages on one
// adapter share its speed. Memory is what each device has to give; stages that take of the same memory each have all of it here. Errors are the device's.
func Powers(ctx context.Context, stages []*gpu.Device) ([]partition.Power, error) {
	sharing := map[int]float64{} // stages by the index of their adapter
	equal := true
	for _, d := range stages {
		sharing[d.Adapter().Index]++
		equal = equal && kindOf(d.Adapter()) == kindOf(stages[0].Adapter())
	}
	powers := make([]partition.Power, len(stages))
	measured := map[adapterKind]partition.Power{}
	for i, d := range stages {
		a := d.Adapter()
		p, known := measured[kindOf(a)]
		switch {
		case equal:
			p = typical(a)
		case !known:
			var err error
			if p, err = remembered(ctx, a); err != nil {
				return nil, fmt.Errorf("pipeline: power of adapter %s: %w", a, err)
			}
			measured[kindOf(a)] = p
		}
		p.FLOPS /= sharing[a.Index]
		p.BytesPerSecond /= sharing[a.Index]
		if bytes, _, ok := d.Available(); ok {
			p.Memory = bytes
		}
		powers[i] = p
	}
	return powers, nil
}

// adapterKind is what adapters of the same speed have in common.
type adapterKind struct{ name, backend, driver string }

func kindOf(a gpu.Adapter) adapterKind { return adapterKind{a.Name, a.Backend, a.Driver} }

// typical is the order of magnitude of f32 products and of the way through the host's memory.
func typical(a gpu.Adapter) partition.Power {
	return partition.Power{FLOPS: gpu.Typical(a).FLOPS, BytesPerSecond: 5e9}
}

// powerFile is what was measured on one adapter with one driver.
type powerFile struct {
	Version        int     `json:"version"`
	Adapter        string  `json:"adapter"`
	Backend        string  `json:"backend"`
	Driver         string  `json:"driver"`
	FLOPS          float64 `json:"flops_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	Peak           float64 `json:"peak_flops_per_second,omitempty"` // the best of Trials, see Peak
	Trials         int     `json:"peak_trials,omitempty"`
}

func (f powerFile) power() partition.Power {
	return partition.Power{FLOPS: f.FLOPS, BytesPerSecond: f.BytesPerSecond}
}

const powerVersion = 1

// remembered is the power of an adapter as it was measured once, now if it never was, on a device of its own.
func remembered(ctx context.Context, a gpu.Adapter) (partition.Power, error) {
	path := a.CacheFile("power")
	if f, ok := readPower(path); ok {
		return f.power(), nil
	}
	p, err := measureAdapter(ctx, a)
	if err != nil || path == "" {
		return p, err
	}
	return p, writePower(path, fileOf(a, p))
}

// measureAdapter is the power of an adapter as it is measured now on a device of its own.
func measureAdapter(ctx context.Context, a gpu.Adapter) (partition.Power, error) {
	dev, err := gpu.Open(ctx, a, gpu.Options{})
	if err != nil {
		return partition.Power{}, err
	}
	defer dev.Release()
	return measurePower(ctx, dev)
}

func fileOf(a gpu.Adapter, p partition.Power) powerFile {
	return powerFile{Version: powerVersion, Adapter: a.Name, Backend: a.Backend, Driver: a.Driver, FLOPS: p.FLOPS, BytesPerSecond: p.BytesPerSecond}
}

// readPower takes a file that is absent, damaged or of another version for none: it is measured and written anew.
func readPower(path string) (f powerFile, ok bool) {
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &f) != nil {
		return powerFile{}, false
	}
	return f, f.Version == powerVersion && f.FLOPS > 0 && f.BytesPerSecond > 0
}

// writePower replaces the file in one step.
func writePower(path string, f powerFile) error {
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := gpu.WriteCache(path, raw); err != nil {
		return fmt.Errorf("remember it: %w", err)
	}
	return nil
}
