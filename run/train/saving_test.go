package train

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
)

// Saving a state of 100 MB makes the slowest step at most 1.3 times the median. It is measured where GPUTRAIN_SAVE_RATIO is set, since it
// needs a machine that does nothing else.
func TestStepsThatSaveAreNotSlow(t *testing.T) {
	if os.Getenv("GPUTRAIN_SAVE_RATIO") == "" {
		t.Skip("skipped, measured with GPUTRAIN_SAVE_RATIO=1 only")
	}
	dev := gputest.Device(t)
	def, err := model.NewGPT2(model.GPT2Config{Layers: 10, Heads: 4, Width: 264, Vocab: 256, Context: 64})
	require.NoError(t, err)
	bytes := 12 * model.Parameters(def)
	require.Greater(t, bytes, int64(100e6))
	for _, every := range []int64{0, 4} {
		c := tinyRun(t, t.TempDir())
		c.State.Definition, c.State.Batch, c.State.Microbatches = def, 2, 1
		c.Validation, c.Sample.Tokens, c.Steps, c.SaveEvery, c.Keep = nil, 0, 18, Every(every), 1
		var steps []time.Duration
		var last time.Time // when the last step began
		c.Hooks = []Hook{HookFunc(func(ctx context.Context, e Event) error {
			switch e.Kind {
			case StepEnd: // one at a time, so that a step takes what it takes
				return dev.Wait(ctx)
			case StepBegin:
				if e.Step > 2 { // the first are those of a cold device
					steps = append(steps, time.Since(last))
				}
				last = time.Now()
			}
			return nil
		})}
		ran(t, dev, c)
		t.Logf("%v", steps)
		slices.Sort(steps)
		median, slowest := steps[len(steps)/2], steps[len(steps)-1]
		ratio := float64(slowest) / float64(median)
		t.Logf("%d MB, saved every %d steps: median %v, slowest %v, %.2f times that", bytes/1e6, every, median, slowest, ratio)
		if every > 0 {
			assert.LessOrEqual(t, ratio, 1.3)
		}
	}
}
