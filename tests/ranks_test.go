package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
)

// onRanks is a command on n ranks; without mpirun the test is skipped.
func (c command) onRanks(t *testing.T, n int) command {
	t.Helper()
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("no mpirun: apt-get install openmpi-bin")
	}
	return c.with(func(c *command) {
		c.args = append([]string{"--oversubscribe", "--bind-to", "none", "-n", fmt.Sprint(n), c.program}, c.args...)
		c.program = mpirun
		c.env = append(c.env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	})
}

// savedStep is the newest checkpoint of a run under way, whole or not.
func savedStep(dir string) int64 {
	steps, err := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(dir, "checkpoints")}.Steps()
	if err != nil || len(steps) == 0 {
		return 0
	}
	return steps[0]
}

// reaches waits for a checkpoint of that step or a later one.
func (p *process) reaches(t *testing.T, dir string, step int64) {
	t.Helper()
	require.True(t, p.until(t, "a checkpoint", func() bool { return savedStep(dir) >= step }), "ended too early: %s", p.err)
}

// children are the processes that a process has started.
func children(t *testing.T, pid string) []string {
	t.Helper()
	out, err := exec.Command("pgrep", "-P", pid).Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// Of a job of three ranks one after another is killed, any of them: ten in the long form, one in the short one. launch starts it again each
// time, and it ends as a run that was never disturbed, on one.
func TestKilledRanksAreLaunchedAgain(t *testing.T) {
	p, want := undisturbedRun(t)
	dir, kills := p.runDir(t, "launched"), 1
	if soak() {
		kills = 10
	}
	c := p.train("launched", "--set", "train.save_every=1").onRanks(t, 3)
	c.program, c.args = program, append([]string{"launch", "-n", "3", "--restarts", fmt.Sprint(kills), "--"}, p.train("launched", "--set", "train.save_every=1").args...)
	launched := c.start(t)
	reached := int64(0)
	for kill := range kills {
		launched.reaches(t, dir, reached+1)
		mpirun := children(t, fmt.Sprint(launched.cmd.Process.Pid))
		ranks := children(t, mpirun[len(mpirun)-1])
		require.NoError(t, exec.Command("kill", "-9", ranks[rand.IntN(len(ranks))]).Run())
		for begin := time.Now(); exec.Command("kill", "-0", mpirun[len(mpirun)-1]).Run() == nil; time.Sleep(5 * time.Millisecond) {
			require.Less(t, time.Since(begin), patience)
		}
		reached = savedStep(dir)
		require.Less(t, reached, int64(steps), "kill %d came too late", kill)
	}
	r := launched.wait(t)
	require.Zero(t, r.code, r.err)
	assert.Equal(t, kills, strings.Count(r.err, "from the newest checkpoint, on 3 ranks"))
	assert.Contains(t, r.err, "warning: 1 of the ranks compute nothing: raise train.accumulate x pipeline.microbatches, 2, to 3\n")
	requireSame(t, want, outcomeOf(t, dir))
}

// A rank that stands still, as one does whose machine is out of memory or in a debugger, ends the others after cluster.timeout. Rank 0 names it, and so does
// any other that was not told before. What was saved stays.
func TestRankStandsStill(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "train.TestRanksThatAreLost")
	p := newPlace(t)
	dir := p.path("still")
	three := p.train("still", "--set", "cluster.timeout=1s").onRanks(t, 3).start(t)
	three.reaches(t, dir, 1)
	ranks := children(t, fmt.Sprint(three.cmd.Process.Pid))
	require.Len(t, ranks, 3)
	require.NoError(t, exec.Command("kill", "-STOP", ranks[1]).Run())
	r := three.wait(t)
	assert.Equal(t, 9, r.code, r.err)
	said := regexp.MustCompile(`(?m)^gputrain: .*$`).FindAllString(r.err, -1)
	assert.NotEmpty(t, said, r.err)
	for _, line := range said {
		assert.Regexp(t, `transport: \w+: rank 1 \(.+\): it does not answer: waited [0-9.]+m?s for `, line)
	}
	assert.Positive(t, newest(t, dir), "none is damaged")
}

// Ranks that are not of one run end before anything is trained, by one line, which names who differs and in what.
func TestRanksOfDifferentRuns(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "train.TestRanksFailTogether")
	p := newPlace(t)
	p.write(t, "other.txt", lines(401))
	other := p.path("program")
	require.NoError(t, os.WriteFile(other, []byte(read(t, program)+"\x00"), 0o777)) // the same program, but for its bytes
	for _, of := range []struct{ name, program, set, says string }{
		{"a setting", program, "train.seed=8", `cluster: rank 1 on host \S+: train\.seed: found 8, wanted that of rank 0 on host \S+, 7`},
		{"the text", program, "data.text=other.txt", `cluster: rank 1 on host \S+: data \(fingerprint of the text\): found \w+, wanted that of rank 0 on host \S+, \w+`},
		{"no text", program, "data.text=none.txt", `rank 1 on host \S+: data: text "none.txt": file does not exist`},
		{"no such key", program, "trian.seed=8", `rank 1 on host \S+: --set trian\.seed=8: unknown key "trian\.seed", did you mean "train\.seed"\?`},
		{"the program", other, "train.seed=7", `cluster: rank 1 on host \S+: program: found .*, sha256 \w+, wanted that of rank 0 on host \S+, .*, sha256 \w+`},
	} {
		t.Run(of.name, func(t *testing.T) {
			c := p.train("different", "--set", "train.seed=7").onRanks(t, 1)
			c.args = append(c.args, append([]string{":", "-n", "1", of.program}, p.train("different", "--set", of.set).args...)...)
			r := c.run(t)
			assert.Equal(t, 2, r.code, r.err)
			said := regexp.MustCompile(`(?m)^gputrain: .*$`).FindAllString(r.err, -1)
			require.Len(t, said, 1, r.err)
			assert.Regexp(t, "^gputrain: "+of.says+"$", said[0])
			assert.NotContains(t, r.err, "compile kernels")
		})
	}
}
