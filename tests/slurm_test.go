package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onSlurm skips where there is no cluster; see tools/slurm.
func onSlurm(t *testing.T) {
	t.Helper()
	if os.Getenv("GPUTRAIN_TEST_SLURM") == "" { // a cluster that others use is left alone
		t.Skip("no Slurm: make slurm has one")
	}
}

func slurm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s: %s", args, out)
	return strings.TrimSpace(string(out))
}

// Two nodes of srun train what one process does. Processes that srun has started without PMIx, each alone in one run directory, end before they train.
func TestSlurmStartsRanks(t *testing.T) {
	onSlurm(t)
	p, want := undisturbedRun(t)
	srun := func(dir string, options ...string) command {
		return p.train(dir).with(func(c *command) {
			c.args = append(append(options, c.program), c.args...)
			c.program = "srun"
		})
	}
	r := ok(t, srun(p.runDir(t, "srun"), "--mpi=pmix", "--nodes=2"))
	assert.Contains(t, r.err, "2 ranks on ")
	requireSame(t, want, outcomeOf(t, p.path("srun")))

	for mpi, says := range map[string]string{"none": "found 2 tasks of srun without PMIx, wanted srun --mpi=pmix", "pmi2": "found PMI_SIZE=2 of another MPI's launcher"} {
		r := srun("alone", "--mpi="+mpi, "--ntasks=2").withoutAdapter().run(t)
		assert.Equal(t, 2, r.code, r.err)
		assert.Contains(t, r.err, says)
		assert.NoDirExists(t, p.path("alone"))
	}
}

// The example of a job: a killed rank, and the signal before its time is over, have Slurm start it again. It ends as a run that was never disturbed.
func TestSlurmExampleGoesOn(t *testing.T) {
	onSlurm(t)
	p, want := undisturbedRun(t)
	script, err := filepath.Abs("../docs/cluster/slurm.sh")
	require.NoError(t, err)
	dir, log := p.runDir(t, filepath.Join("runs", "run")), p.path("slurm.out")
	sbatch := p.command("--parsable", "--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=1", "--cpus-per-task=1", "--output="+log, script, "run.yaml")
	sbatch.program = "sbatch"
	sbatch.env = []string{"PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")}
	p.write(t, "slurm.out", "")
	job := strings.TrimSpace(ok(t, sbatch).out)
	state := func() string { return slurm(t, "squeue", "-h", "-j", job, "-t", "all", "-o", "%T") }
	over := func() bool {
		return !slices.Contains([]string{"CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED"}, state())
	}
	wait(t, log, func() bool { return state() != "PENDING" })
	for i, disturb := range []func(){
		func() { slurm(t, "scancel", "--signal=USR1", job) }, // to the ranks, as sbatch --signal does
		func() { slurm(t, "pkill", "-9", "-n", "-f", "^"+program+" train") },
	} {
		reached := savedStep(dir)
		wait(t, log, func() bool { return savedStep(dir) > reached+4 || over() })
		require.Equal(t, "RUNNING", state(), "%s", read(t, log))
		disturb()
		wait(t, log, over)
		require.Equal(t, "PENDING", state(), "%s", read(t, log))
		assert.Equal(t, fmt.Sprint(i+1), field(slurm(t, "scontrol", "show", "job", job), "Restarts"))
		// Slurm would wait two minutes, since a node takes nothing for a job that it has just ended.
		wait(t, log, func() bool { return exec.Command("pgrep", "-f", `^slurmstepd: \[`+job+`\.`).Run() != nil })
		slurm(t, "scontrol", "update", "JobId="+job, "StartTime=now+5seconds")
		wait(t, log, func() bool { return state() != "PENDING" })
	}
	wait(t, log, over)
	require.Equal(t, "COMPLETED", state(), "%s", read(t, log))
	requireSame(t, want, outcomeOf(t, dir))
}

func wait(t *testing.T, log string, there func() bool) {
	t.Helper()
	for begin := time.Now(); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > patience {
			b, _ := os.ReadFile(log)
			require.FailNow(t, "no end", "%s", b)
		}
	}
}

// field is a value of what scontrol shows.
func field(text, name string) string {
	_, value, _ := strings.Cut(text, " "+name+"=")
	value, _, _ = strings.Cut(value, " ")
	return value
}
