package train

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
)

// patient is a run whose loss on what is held out grows from step 4 on: its rate is far too high. It is evaluated every second step.
func patient(t *testing.T, dir string, patience int64) Config {
	c := tinyRun(t, dir)
	c.EvalEvery, c.SaveEvery, c.Patience = 2, Every(2), patience
	c.State.Optimizer.Options.Schedule.LearningRate = 2
	c.State.Optimizer.Options.Schedule.WarmupSteps = 0
	return c
}

// lossesAt are the losses of a run's evaluations by step.
func lossesAt(t *testing.T, dir string) map[int64]float64 {
	_, evals, err := ReadMetrics(dir)
	require.NoError(t, err)
	all := map[int64]float64{}
	for _, e := range evals {
		all[e.Step] = float64(e.Loss)
	}
	return all
}

// endOf is the step at which so much patience ends, by the losses of a run that has none: counted here by looking at each.
func endOf(losses map[int64]float64, patience int64) (end, best int64) {
	least, worse := math.Inf(1), int64(0)
	for step := int64(2); step <= 12; step += 2 {
		worse++
		if losses[step] < least {
			least, best, worse = losses[step], step, 0
		}
		if worse == patience {
			return step, best
		}
	}
	return 12, best
}

// A run ends once so many evaluations were no better than the best one, with what an undisturbed run has at that step, however often it was stopped, on one
// device, on stages and on ranks. Started again it says so and does nothing; with more patience it goes on to the same end as if it had always had it.
func TestPatience(t *testing.T) {
	dev := gputest.Device(t)
	whole := t.TempDir()
	ran(t, dev, patient(t, whole, 0))
	losses := lossesAt(t, whole)
	end, best := endOf(losses, 2)
	require.Less(t, end, int64(10), "of %v", losses)
	require.Greater(t, best, int64(0))
	dir := t.TempDir()
	var out bytes.Buffer
	c := patient(t, dir, 2)
	c.Output = &out
	r := ran(t, dev, c)
	assert.Equal(t, []any{kindEarly, end, best, 0}, []any{r.Reason, r.Step, r.BestStep, r.Reason.ExitCode()})
	said := fmt.Sprintf("2 evaluations in a row no better than that of step %d (loss %.4f)", best, losses[best])
	assert.Contains(t, out.String(), fmt.Sprintf("stopped early at step %d of 12: %s; the best checkpoint is %s/checkpoints/%s; a train.patience of more than 2 goes on\n", end, said, dir, checkpoint.DirName(best)))
	assert.Contains(t, textAt(t, dir, reportFile), fmt.Sprintf("stopped early at step %d of 12: %s |", end, said))
	s, err := ReadSummary(dir)
	require.NoError(t, err)
	assert.Equal(t, "stopped early", s.Ended)
	assert.Contains(t, string(s.Text()), said)
	assert.NoError(t, checkpoint.Verify(checkpoint.OS, dir+"/checkpoints/"+checkpoint.DirName(best)))
	want := textAt(t, whole, metricsFile)
	left := untimed(t, textAt(t, dir, metricsFile))
	assert.Equal(t, untimed(t, want)[:len(left)], left)
	weights := checkpointFiles(t, dir, end)
	assert.Equal(t, fmt.Sprint(end), fmt.Sprint(lastSample(t, dir)), "a sample is drawn at the end")

	before := leftBy(t, dir)
	out.Reset()
	r = ran(t, dev, c)
	assert.Equal(t, []any{kindEarly, end}, []any{r.Reason, r.Step})
	assert.Contains(t, out.String(), said)
	requireSame(t, before, leftBy(t, dir))

	for _, at := range []int64{end, end - 1, best} {
		if testing.Short() && at != end {
			break
		}
		t.Run(fmt.Sprintf("stopped at step %d", at), func(t *testing.T) {
			dir := t.TempDir()
			halted(t, dev, patient(t, dir, 2), StepEnd, at)
			assert.Equal(t, end, ran(t, dev, patient(t, dir, 2)).Step)
			requireSame(t, before, leftBy(t, dir))
			assert.Equal(t, 2, strings.Count(textAt(t, dir, sessionsFile), "\n"), "both processes had something to do")
		})
	}
	t.Run("stages", func(t *testing.T) {
		c := patient(t, t.TempDir(), 2)
		r, err := RunOn(t.Context(), Pipelined([]*gpu.Device{dev, dev}, twoStages(t, c.State)), c)
		require.NoError(t, err)
		assert.Equal(t, []any{kindEarly, end}, []any{r.Reason, r.Step})
	})
	t.Run("ranks", func(t *testing.T) {
		dir := t.TempDir()
		for range 2 { // and again
			results, errs := onRanks(t, dev, 2, patient(t, dir, 2), nil)
			for rank, err := range errs {
				require.NoError(t, err)
				assert.Equal(t, []any{kindEarly, end}, []any{results[rank].Reason, results[rank].Step})
			}
		}
		assert.Equal(t, weights, checkpointFiles(t, dir, end))
		assert.Equal(t, left, untimed(t, textAt(t, dir, metricsFile)))
	})
	t.Run("more", func(t *testing.T) {
		assert.Equal(t, int64(12), ran(t, dev, patient(t, dir, 9)).Step)
		assert.Equal(t, untimed(t, want), untimed(t, textAt(t, dir, metricsFile)))
		assert.Equal(t, checkpointFiles(t, whole, 12), checkpointFiles(t, dir, 12))
	})
}

// lastSample is the step of the last sample of a run.
func lastSample(t *testing.T, dir string) int64 {
	samples, _, err := readSamples(dir + "/" + samplesFile)
	require.NoError(t, err)
	return samples[len(samples)-1].Step
}

// A run that is given more steps counts from there on.
func TestPatienceAfterReschedule(t *testing.T) {
	dev, dir := gputest.Device(t), t.TempDir()
	end := ran(t, dev, patient(t, dir, 2)).Step
	c := patient(t, dir, 2)
	c.Steps, c.Reschedule = 40, true
	r := ran(t, dev, c)
	assert.GreaterOrEqual(t, r.Step, end+4, "two more evaluations at least")
	again := patient(t, dir, 2)
	again.Steps = 40
	assert.Equal(t, r.Step, ran(t, dev, again).Step)
}
