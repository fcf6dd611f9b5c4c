package pipeline

import (
	"context"
	"fmt"

	"gputrain/gpu"
)

// peakTrials is how often the peak of an adapter is measured before the best figure is taken for what it can do.
const peakTrials = 5

// Peak is the number of operations a second that devices make in f32 products, all together. An adapter counts once, however many of the
// devices are its. The best figure is kept beside those of Powers. A busy machine gives low figures, so the first few calls measure again,
// each for less than half a second an adapter.
func Peak(ctx context.Context, devices []*gpu.Device) (float64, error) {
	seen, sum := map[int]bool{}, 0.0
	for _, d := range devices {
		a := d.Adapter()
		if seen[a.Index] {
			continue
		}
		seen[a.Index] = true
		peak, err := peakOf(a, func() (gpu.Speed, error) { return measureAdapter(ctx, a) })
		if err != nil {
			return 0, fmt.Errorf("pipeline: peak of adapter %s: %w", a, err)
		}
		sum += peak
	}
	return sum, nil
}

// peakOf is the best of what measure has given for an adapter so far.
func peakOf(a gpu.Adapter, measure func() (gpu.Speed, error)) (float64, error) {
	path := a.CacheFile("power")
	f, known := readPower(path)
	if known && f.Trials >= peakTrials {
		return f.Peak, nil
	}
	p, err := measure()
	if err != nil {
		return 0, err
	}
	if !known {
		f = fileOf(a, p)
	}
	f.Peak, f.Trials = max(f.Peak, f.FLOPS, p.FLOPS), f.Trials+1
	if path == "" {
		return f.Peak, nil
	}
	return f.Peak, writePower(path, f)
}
