package tests

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// moments are where a run is killed; each waits, as long as the process runs, for a place that chance has some part in. The last step in
// metrics.jsonl is at first that of the run before: only beyond it is progress.
var moments = []struct {
	name string
	wait func(t *testing.T, p *process, runDir string, chance *rand.Rand)
}{
	{"inside the writing of a checkpoint", func(t *testing.T, p *process, runDir string, chance *rand.Rand) {
		after := lastStep(t, runDir) + chance.Int64N(4)
		writes := func() bool { return len(unfinished(t, runDir)) > 0 }
		p.until(t, "a checkpoint being written", func() bool { return writes() && lastStep(t, runDir) > after && p.heldAs(writes) })
	}},
	{"between steps, evaluations and samples", func(t *testing.T, p *process, runDir string, chance *rand.Rand) {
		after := lastStep(t, runDir) + chance.Int64N(6)
		p.until(t, "some more steps", func() bool { return lastStep(t, runDir) > after })
		time.Sleep(time.Duration(chance.IntN(20_000)) * time.Microsecond)
	}},
	{"before or while it restores", func(_ *testing.T, _ *process, _ string, chance *rand.Rand) {
		time.Sleep(time.Duration(chance.IntN(600)) * time.Millisecond)
	}},
}

// unfinished are the checkpoints that are being written, or that a kill has left unwritten.
func unfinished(t *testing.T, runDir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(runDir, "checkpoints", "*.tmp"))
	require.NoError(t, err)
	return found
}

var resumedFrom = regexp.MustCompile(`(?m)^resumed from .*checkpoints[/\\]step-0*(\d+): .* metrics of step (\d+),`)

// A run killed at random moments, three times in the short form and ten in the long one, always goes on from the newest checkpoint, which
// is never further back than twice the steps between two, and ends with the bits of a run that was left alone.
func TestKilledAtRandomMoments(t *testing.T) {
	p, want := undisturbedRun(t)
	kills := 3
	if soak() {
		kills = 10
	}
	runDir := p.runDir(t, "killed")
	expected, inside := killAgain(t, runDir, 20260729, kills, func(int) command { return p.train("killed") })
	assert.Positive(t, inside, "no kill has met a checkpoint being written")
	ended := ok(t, p.train("killed"))
	requireResumed(t, ended.err, expected)
	require.Empty(t, unfinished(t, runDir))
	requireSame(t, want, outcomeOf(t, runDir))
	names, err := os.ReadDir(filepath.Join(runDir, "checkpoints"))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(names), 3, "rotated: two, and the best besides")
}

// killAgain kills the processes of a run one after the other, each at another moment, and returns the step of the newest checkpoint that is
// left, and how many checkpoints the kills have met unfinished.
func killAgain(t *testing.T, runDir string, seed uint64, kills int, next func(kill int) command) (step int64, inside int) {
	t.Helper()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	for kill := range kills {
		moment := moments[kill%len(moments)]
		c := next(kill)
		run := c.start(t)
		moment.wait(t, run, runDir, chance)
		require.True(t, run.running(), "the run has ended before kill %d, %s:\n%s", kill, moment.name, run.err)
		require.NoError(t, run.cmd.Process.Kill())
		ended := run.wait(t)
		killed := -1
		if runtime.GOOS == "windows" {
			killed = 1
		}
		require.Equal(t, killed, ended.code, "killed")
		requireResumed(t, ended.err, step)
		assert.NotContains(t, ended.err, "not to the same bits")
		left := len(unfinished(t, runDir))
		inside += left
		reached := lastStep(t, runDir)
		step = newest(t, runDir)
		t.Logf("kill %d, %v, %s: at step %d, checkpoint of step %d, %d unfinished", kill, c.args, moment.name, reached, step, left)
		assert.LessOrEqual(t, reached-step, int64(2*saveEvery), "no more is lost than the steps since the last checkpoint and those made while the next was written")
	}
	return step, inside
}

// requireResumed compares the step that a run says it goes on from with the newest checkpoint there was. A run that was killed before it
// could say anything has not said anything wrong.
func requireResumed(t *testing.T, said string, step int64) {
	t.Helper()
	found := resumedFrom.FindStringSubmatch(said)
	if found == nil {
		assert.True(t, step == 0 || !strings.Contains(said, "\nstep "), "goes on from step %d without saying so:\n%s", step, said)
		return
	}
	assert.Equal(t, strconv.FormatInt(step, 10), found[1])
	assert.Equal(t, found[1], found[2], "parameters and metrics are of the same step")
}
