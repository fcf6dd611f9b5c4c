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
		f, err := figures(a, peakTrials, func() (gpu.Speed, error) { return measureAdapter(ctx, a) })
		if err != nil {
			return 0, fmt.Errorf("pipeline: peak of adapter %s: %w", a, err)
		}
		sum += f.Peak
	}
	return sum, nil
}
