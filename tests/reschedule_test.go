package tests

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/train"
)

// A finished run of 4 steps goes on to 8 when it is asked to, and then needs not be asked again.
func TestReschedule(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := p.runDir(t, "run")
	short := func(steps string, more ...string) command {
		return p.train("run", append([]string{"--set", "train.steps=" + steps, "--set", "train.eval_every=0", "--set", "optimizer.schedule.warmup_steps=0"}, more...)...)
	}
	refused(t, short("4", "--reschedule"), 2, "found no checkpoint, wanted a run to go on with")
	ok(t, short("4"))
	refused(t, short("8"), 2, "train.steps: found 4, wanted 8", "let the schedule change with --reschedule")
	refused(t, short("8", "--reschedule", "--set", "train.seed=1"), 2, "train.seed: found 7, wanted 1")
	refused(t, short("8", "--reschedule", "--fresh"), 2, "--reschedule", "--fresh")
	refused(t, short("3", "--reschedule"), 1, "is at step 4, wanted 3 steps")
	r := ok(t, short("8", "--reschedule", "--set", "optimizer.learning_rate=2e-2"))
	const decision = "rescheduled at step 4: optimizer.learning_rate 0.01 -> 0.02, train.steps 4 -> 8\n"
	assert.Contains(t, r.err, decision)
	text, err := os.ReadFile(p.path("run", "run.yaml"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "# "+decision)
	steps, _, err := train.ReadMetrics(dir)
	require.NoError(t, err)
	require.Len(t, steps, 8)
	assert.InDelta(t, 1e-2, float64(steps[0].LearningRate), 1e-9)
	assert.InDelta(t, (2e-2+2e-3)/2, float64(steps[4].LearningRate), 1e-9, "half of the cosine, which ends at a tenth of the peak")
	ok(t, short("8", "--set", "optimizer.learning_rate=2e-2"))
	ok(t, p.command("eval", "run"))
}
