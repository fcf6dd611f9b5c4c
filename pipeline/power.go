package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"gputrain/gpu"
	"gputrain/internal/cache"
	"gputrain/internal/ranks/mesh"
	"gputrain/pipeline/partition"
)

// Site is where a stage is, as far as its power goes.
type Site struct {
	Host    string
	Adapter gpu.Adapter
	Memory  uint64 // that the stage's device has to give; 0 is unknown
}

// SiteOf is that of a stage on a device of a host.
func SiteOf(host string, d *gpu.Device) Site {
	bytes, _, _ := d.Available()
	return Site{host, d.Adapter(), bytes}
}

// Powers tells what the devices of the stages can do, one a stage. Stages whose adapters are alike, of one name, backend and driver, are not measured: a
// table tells what such adapters do, for only ratios count. Else each kind of adapter is measured once (measuredPower). Memory is what each device has to
// give; stages that take of the same memory each have all of it here. Errors are the device's.
func Powers(ctx context.Context, stages []*gpu.Device) ([]partition.Power, error) {
	var sites []Site
	for _, d := range stages {
		sites = append(sites, SiteOf("", d))
	}
	return PowersAt(ctx, nil, sites)
}

// PowersAt is Powers of the stages of the first replica of a mesh, whose ranks tell each other what their own adapters do. Stages on one adapter share its
// speed.
func PowersAt(ctx context.Context, m *mesh.Mesh, sites []Site) ([]partition.Power, error) {
	told, err := speeds(ctx, m, sites)
	if err != nil {
		return nil, err
	}
	type place struct {
		host  string
		index int
	}
	sharing := map[place]float64{}
	for _, s := range sites {
		sharing[place{s.Host, s.Adapter.Index}]++
	}
	powers := make([]partition.Power, len(sites))
	for i, s := range sites {
		p := gpu.Speed{FLOPS: s.Adapter.Typical().FLOPS, BytesPerSecond: throughHost}
		if told != nil {
			p = told[m.RankOf(0, i)][i]
		}
		stages := sharing[place{s.Host, s.Adapter.Index}]
		powers[i] = partition.Power{Speed: gpu.Speed{FLOPS: p.FLOPS / stages, BytesPerSecond: p.BytesPerSecond / stages}, Memory: s.Memory}
	}
	return powers, nil
}

// speeds are what each rank has measured of the stages that it has; nil where the adapters of all are alike, and no rank has.
func speeds(ctx context.Context, m *mesh.Mesh, sites []Site) (told [][]gpu.Speed, err error) {
	if !slices.ContainsFunc(sites, func(s Site) bool { return kindOf(s.Adapter) != kindOf(sites[0].Adapter) }) {
		return nil, nil
	}
	own, known := make([]gpu.Speed, len(sites)), map[adapterKind]gpu.Speed{}
	for stage, s := range sites {
		if !m.Has(0, stage) {
			continue
		}
		kind := kindOf(s.Adapter)
		if _, measured := known[kind]; !measured {
			if known[kind], err = measuredPower(ctx, s.Adapter); err != nil {
				return nil, err
			}
		}
		own[stage] = known[kind]
	}
	return mesh.Tell(ctx, m, "powers of the stages", own)
}

// adapterKind is what adapters of the same speed have in common.
type adapterKind struct{ name, backend, driver string }

func kindOf(a gpu.Adapter) adapterKind { return adapterKind{a.Name, a.Backend, a.Driver} }

// throughHost is the order of magnitude of bytes a second through the host's memory.
const throughHost = 5e9

// powerFile is what was measured on one adapter with one driver.
type powerFile struct {
	Version int    `json:"version"`
	Adapter string `json:"adapter"`
	Backend string `json:"backend"`
	Driver  string `json:"driver"`
	gpu.Speed
	Peak   float64 `json:"peak_flops,omitempty"` // the best of Trials, see Peak
	Trials int     `json:"peak_trials,omitempty"`
}

const powerVersion = 1

// measuredPower is the power of an adapter of this machine as it was measured once, now if it never was, on a device of its own and for less than half a
// second. The figures are kept on disk by adapter and driver (gpu.Adapter.CacheFile), so that a run that goes on is cut alike.
func measuredPower(ctx context.Context, a gpu.Adapter) (gpu.Speed, error) {
	f, err := figures(a, 0, func() (gpu.Speed, error) { return measureAdapter(ctx, a) })
	if err != nil {
		err = fmt.Errorf("pipeline: power of adapter %s: %w", a, err)
	}
	return f.Speed, err
}

// figures are what was measured of an adapter, and what measure gives now if there were fewer trials.
func figures(a gpu.Adapter, trials int, measure func() (gpu.Speed, error)) (powerFile, error) {
	path := a.CacheFile("power")
	f, known := readPower(path)
	if known && f.Trials >= trials {
		return f, nil
	}
	s, err := measure()
	if err != nil {
		return f, err
	}
	if !known {
		f = powerFile{Version: powerVersion, Adapter: a.Name, Backend: a.Backend, Driver: a.Driver, Speed: s}
	}
	f.Peak, f.Trials = max(f.Peak, f.FLOPS, s.FLOPS), f.Trials+1
	if path != "" {
		err = writePower(path, f)
	}
	return f, err
}

// measureAdapter is the power of an adapter as it is measured now on a device of its own.
func measureAdapter(ctx context.Context, a gpu.Adapter) (gpu.Speed, error) {
	dev, err := gpu.Open(ctx, a, gpu.Options{})
	if err != nil {
		return gpu.Speed{}, err
	}
	defer dev.Release()
	return measurePower(ctx, dev)
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
	if err := cache.Write(path, raw); err != nil {
		return fmt.Errorf("remember it: %w", err)
	}
	return nil
}
