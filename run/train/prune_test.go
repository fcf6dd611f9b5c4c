package train_test

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// pruned are the parameters that the test prunes.
var pruned = regexp.MustCompile(`^h\.\d+\.(attn|mlp)\..*weight$`)

func tinyPruned(t *testing.T, dir string) train.Config {
	t.Helper()
	c := train.TinyRun(t, dir)
	c.Hooks = []train.Hook{&pruner{match: pruned, share: 0.5, at: 5}}
	return c
}

// weightsAt are those of a checkpoint.
func weightsAt(t *testing.T, dir string, step int64) []buffers.Host {
	t.Helper()
	_, hosts, err := hub.ReadHF(filepath.Join(dir, "checkpoints", checkpoint.DirName(step)))
	require.NoError(t, err)
	return hosts
}

// The smaller half of each matrix, as it was at step 5, is zero from then on; nothing else is. Stopped and gone on with, and on two stages, the run
// ends with the same bytes.
func TestPruning(t *testing.T) {
	dev := gputest.Device(t)
	dense, dir := t.TempDir(), t.TempDir()
	c := train.TinyRun(t, dense)
	c.Steps = 5
	_, err := train.Run(t.Context(), dev, c)
	require.NoError(t, err)
	_, err = train.Run(t.Context(), dev, tinyPruned(t, dir))
	require.NoError(t, err)
	want := train.OutcomeOf(t, dir)

	matrices := 0
	for _, step := range []int64{9, 12} {
		for i, h := range weightsAt(t, dir, step) {
			before := weightsAt(t, dense, 5)[i]
			var sizes []float64
			for _, v := range before.Data {
				sizes = append(sizes, math.Abs(float64(v)))
			}
			slices.Sort(sizes)
			limit := math.Inf(-1)
			if pruned.MatchString(h.Path) {
				limit = sizes[len(sizes)/2]
				require.Less(t, sizes[len(sizes)/2-1], limit, "no tie at the border")
				matrices++
			}
			for j, v := range before.Data {
				require.Equal(t, math.Abs(float64(v)) < limit, h.Data[j] == 0, "step %d: %s[%d]", step, h.Path, j)
			}
		}
	}
	assert.Equal(t, 2*4, matrices)

	for _, step := range []int64{4, 5, 6, 10} {
		dir := t.TempDir()
		c := tinyPruned(t, dir)
		ctx, hook := train.StopAt(train.StepEnd, step)
		c.Hooks = append(c.Hooks, hook)
		_, err := train.Run(ctx, dev, c)
		require.ErrorIs(t, err, train.ErrStopped)
		_, err = train.Run(t.Context(), dev, tinyPruned(t, dir))
		require.NoError(t, err)
		assert.Equal(t, want, train.OutcomeOf(t, dir), "stopped at step %d", step)
	}

	two := t.TempDir()
	c = tinyPruned(t, two)
	_, err = train.RunOn(t.Context(), train.Pipelined([]*gpu.Device{dev, dev}, train.TwoStages(t, c.State)), c)
	require.NoError(t, err)
	assert.Equal(t, weightsAt(t, dir, 12), weightsAt(t, two, 12))
}
