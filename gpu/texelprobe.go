package gpu

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"gputrain/internal/cache"
	"gputrain/internal/system"
)

// What a load from a buffer costs relative to one from a texture differs tenfold between versions of one driver and
// between processors, so it is measured, once for each adapter and driver, and remembered.

// loadRatio is how many times as long a load takes from a buffer as from texels, on one adapter with its driver.
type loadRatio struct {
	Adapter string  `json:"adapter"`
	Driver  string  `json:"driver"`
	Ratio   float64 `json:"ratio"`
}

// From which ratio on texels pay: 1.5 where each element is read many times, 2 where the refresh is for one reader. lavapipe of Mesa 22.3.6 has
// 2.1 to 2.4 on Sapphire Rapids, where all kernels take 0.92 of the step that products and attention alone take, and by its cost of loads
// 17 on Zen 3; of Mesa 25.0.7 about 2 there; SwiftShader less than 1.
const (
	ratioReuse = 1.5
	ratioAll   = 2
)

func (r loadRatio) use() TexelUse {
	switch {
	case r.Ratio >= ratioAll:
		return TexelsAll
	case r.Ratio >= ratioReuse:
		return TexelsReuse
	}
	return TexelsOff
}

// probed is what this process has measured or read, by cache file.
var probed struct {
	mu    sync.Mutex
	known map[string]loadRatio
}

// chooseTexels settles which kernels read texels.
func (d *Device) chooseTexels(ctx context.Context, use TexelUse) error {
	lim := &d.limits
	switch {
	case lim.TexelBindings == 0:
		if use > TexelsOff {
			return fmt.Errorf("use %s: found no texels on this adapter, wanted auto or off", use)
		}
		lim.Texels = TexelsOff
	case use != TexelsAuto:
		lim.Texels = use
	case lim.Texels == TexelsAuto:
		r, err := d.loadRatio(ctx)
		if err != nil {
			return err
		}
		lim.Texels = r.use()
	}
	return nil
}

func (d *Device) loadRatio(ctx context.Context) (loadRatio, error) {
	probed.mu.Lock()
	defer probed.mu.Unlock()
	path := d.adapter.CacheFile("texels")
	if r, ok := probed.known[path]; ok && path != "" {
		return r, nil
	}
	r, ok := readRatio(path)
	if !ok {
		var err error
		if r, err = probe(ctx, d.adapter, d.logger); err != nil {
			return r, err
		}
		if err := r.write(path); err != nil {
			d.logger.Warn("gpu: texels: the measurement is not remembered", "path", path, "error", err)
		}
	}
	if probed.known == nil {
		probed.known = map[string]loadRatio{}
	}
	probed.known[path] = r
	return r, nil
}

// readRatio is false for a file that is not there or not usable: it is measured and written again then.
func readRatio(path string) (r loadRatio, ok bool) {
	raw, err := os.ReadFile(path)
	return r, err == nil && json.Unmarshal(raw, &r) == nil && r.Ratio > 0
}

func (r loadRatio) write(path string) error {
	if path == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return cache.Write(path, raw)
}

// probeKernel adds up 256 vec4s an invocation.
var probeKernel = KernelOf("gputrain.gpu.probe", `
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> sum: array<vec4<f32>>;
@compute @workgroup_size(64, 1, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var s = vec4<f32>();
    for (var i = 0u; i < 256u; i++) {
        s += a[(id.x + 8u * i) & 2047u];
    }
    sum[id.x] = s;
}
`)

// probe measures both kinds of load in turns and compares the best of each. It has a device of its own: the counters, the account and the limits
// of the one that asks are as if nothing had been measured.
func probe(ctx context.Context, adapter Adapter, log *slog.Logger) (loadRatio, error) {
	const groups, rounds = 64, 5
	r := loadRatio{Adapter: adapter.String(), Driver: adapter.Driver}
	d, err := Open(ctx, adapter, Options{Texels: TexelsOff, Logger: log})
	if err != nil {
		return r, err
	}
	defer d.Release()
	set := d.NewSet("gputrain.gpu.probe")
	defer set.Release()
	a, sum := set.Zeros("a", 2048*texelBytes), set.Zeros("sum", groups*64*texelBytes)
	if err := set.Err(); err != nil {
		return r, err
	}
	best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	var programs [2]*Program
	for i, use := range []TexelUse{TexelsOff, TexelsForce} {
		d.limits.Texels = use
		rec := d.Record("gputrain.gpu.probe")
		rec.Dispatch(probeKernel, Grid{groups, 1, 1}, nil, a.All(), sum.All())
		if programs[i], err = rec.Program(ctx); err != nil {
			return r, err
		}
		defer programs[i].Release()
	}
	for range 1 + rounds { // the first compiles
		for i, p := range programs {
			took := system.Stopwatch()
			if err := p.Submit(ctx); err != nil {
				return r, err
			}
			if err := d.Wait(ctx); err != nil {
				return r, err
			}
			best[i] = min(best[i], took())
		}
	}
	r.Ratio = math.Round(10*float64(best[0])/float64(best[1])) / 10
	return r, nil
}
