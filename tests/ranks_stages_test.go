//go:build unix

package tests

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// twoRanks are the settings of two stages on ranks of their own.
var twoRanks = []string{"pipeline.stages=2", `pipeline.adapters=["0:auto", "1:auto"]`}

// A run whose two stages are on two ranks, of which one is killed, goes on as two replicas of these on four ranks, which divide the update and
// are stopped by a signal, and then in one process. It ends as one that was never disturbed, on one device.
func TestStagesOnRanksAreKilled(t *testing.T) {
	gputest.Long(t, "TestKilledRanksAreLaunchedAgain kills ranks, pipeline.TestStagesOnRanks has stages on them")
	p, want := undisturbedRun(t)
	dir := p.runDir(t, "spread")
	two := p.staged("spread", twoRanks...).onRanks(t, 2).start(t)
	two.reaches(t, dir, 17) // behind a sample
	pids := children(t, fmt.Sprint(two.cmd.Process.Pid))
	require.NoError(t, exec.Command("kill", "-9", pids[len(pids)-1]).Run())
	ended := two.wait(t)
	assert.NotZero(t, ended.code)
	assert.Regexp(t, `stage 1, .*: rank 1 on host \S+: 0: `, ended.err)
	assert.Regexp(t, `process rank \d with PID`, ended.err, "who was killed, by mpirun")

	four := p.staged("spread", append(twoRanks, "cluster.shard_optimizer=true")...).onRanks(t, 4).start(t)
	four.reaches(t, dir, 33)
	require.NoError(t, four.cmd.Process.Signal(syscall.SIGUSR1)) // which mpirun hands on
	ended = four.wait(t)
	assert.Equal(t, 3, ended.code, ended.err)
	assert.Contains(t, ended.err, "divided over 2 replicas of the model, each on 2 ranks")
	assert.Contains(t, ended.err, "resumed from ")
	at := savedStep(dir)
	require.Less(t, at, int64(steps), "was stopped too late")

	r := ok(t, p.staged("spread", "pipeline.stages=2"))
	requireResumed(t, r.err, at)
	assert.NotContains(t, r.err, "not to the same bits")
	requireSame(t, want, outcomeOf(t, dir))
}

// Stages on ranks that are not there, or do not have the adapter, and ranks of which one has its stages elsewhere, end before anything is begun: one
// line says why.
func TestBadStagesOnRanks(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestBadPipelines, train.TestRanksFailTogether")
	p := newPlace(t)
	on := func(ranks int, values ...string) command { return p.staged("run", values...).onRanks(t, ranks) }
	other := on(1, twoRanks...)
	other.args = append(other.args, append([]string{":", "-n", "1", program}, p.staged("run", "pipeline.stages=2", "pipeline.adapters=[1:auto, 0:auto]").args...)...)
	for name, c := range map[string]struct {
		command
		says string
	}{
		"one process": {p.staged("run", twoRanks...), "pipeline.adapters (--set): found stages on 2 ranks and one process, wanted 2 processes or a multiple: mpirun -n 2 gputrain train run.yaml"},
		"three ranks": {on(3, twoRanks...), "pipeline.adapters (--set): pipeline: ranks: found 3 ranks, wanted a multiple of the 2 of a pipeline: 2, 4, 6 and so on"},
		"no adapter":  {on(2, "pipeline.stages=2", `pipeline.adapters=["0:auto", "1:99"]`), "rank 1 on host "},
		"other ranks": {other, `pipeline.adapters: found ["1:auto","0:auto"] for 2 stages, wanted that of rank 0 on host `},
		"histograms":  {on(2, append([]string{"train.histogram_every=5"}, twoRanks...)...), "histogram_every: 5, watchers: 0, wanted none where stages are on several ranks"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.run(t)
			assert.NotZero(t, r.code, r.err)
			assert.Equal(t, 1, strings.Count(r.err, "gputrain: "), "told once: %s", r.err)
			assert.Contains(t, r.err, c.says)
			if name == "no adapter" {
				assert.Contains(t, r.err, "found adapter 99, wanted 0 to ")
			}
		})
	}
	assert.NoDirExists(t, p.path("run"), "nothing is begun")
}
