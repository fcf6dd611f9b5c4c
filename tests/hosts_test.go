package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hosts is a file of the hosts between which a link can be cut; see tests/netns.
func hosts(t *testing.T) string {
	t.Helper()
	list := os.Getenv("GPUTRAIN_TEST_HOSTS")
	if list == "" {
		t.Skip("one host; make netns has two")
	}
	return strings.NewReplacer(":", " slots=", ",", "\n").Replace(list)
}

// link does to the link what a variable of tests/netns says.
func link(t *testing.T, variable string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", os.Getenv(variable)).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Ranks on two hosts train one model. In the middle of a step the link between the hosts is cut: those of each host end by themselves, and name one of
// the other host. Once the link is there again the same command goes on, and leaves what one process leaves that nothing has disturbed.
func TestHostsTrainThroughACut(t *testing.T) {
	list := hosts(t)
	p, want := undisturbedRun(t)
	p.write(t, "hosts", list)
	dir := p.runDir(t, "cut")
	launch := p.command(append([]string{"launch", "--hosts", "hosts", "--"}, p.train("cut", "--set", "cluster.timeout=1s").args...)...)
	run := launch.start(t)
	require.True(t, run.until(t, "a checkpoint", func() bool { return savedStep(dir) > 0 }), "%s", run.err)
	link(t, "GPUTRAIN_TEST_CUT")
	require.True(t, run.until(t, "the end of all ranks", func() bool { return exec.Command("pgrep", "-f", "^"+program+" train ").Run() != nil }), "%s", run.err)
	link(t, "GPUTRAIN_TEST_MEND")
	r := run.wait(t)
	assert.Equal(t, 9, r.code, r.err)
	for _, line := range regexp.MustCompile(`(?m)^gputrain: .*$`).FindAllString(r.err, -1) {
		assert.Regexp(t, `^gputrain: state: step \d+: reduce: gradients: cluster: rank \d on host \w+: `, line, "it was in the middle of a step")
	}
	assert.Regexp(t, `rank [01] on host hosta: transport: \w+: rank 2 \(hostb\): it does not answer: waited [0-9.]+m?s for `, r.err)
	assert.Regexp(t, `rank 2 on host hostb: transport: \w+: rank [01] \(hosta\): it does not answer: waited [0-9.]+m?s for `, r.err)
	whole := newest(t, dir)
	assert.Positive(t, whole, "none is damaged")

	r = ok(t, launch)
	assert.Contains(t, r.err, "3 ranks on hosta, hostb")
	requireResumed(t, r.err, whole)
	requireSame(t, want, outcomeOf(t, dir))
}
