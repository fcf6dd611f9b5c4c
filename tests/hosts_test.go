//go:build unix

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hosts is a file of the hosts between which a link can be cut; see tools/netns.
func hosts(t *testing.T) string {
	t.Helper()
	list := os.Getenv("GPUTRAIN_TEST_HOSTS")
	if list == "" {
		t.Skip("one host; make netns has two")
	}
	return strings.NewReplacer(":", " slots=", ",", "\n").Replace(list)
}

// link does to the link what a variable of tools/netns says.
func link(t *testing.T, variable string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", os.Getenv(variable)).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Ranks on two hosts train one model, all of it each or a stage each. In the middle of a step the link between the hosts is cut: those of each host end by
// themselves, and name one of the other host. Once the link is there again the same command goes on, and leaves what one process leaves that nothing has
// disturbed.
func TestHostsTrainThroughACut(t *testing.T) {
	list := hosts(t)
	p, want := undisturbedRun(t)
	for _, of := range []struct {
		name, hosts string
		set         []string
		ranks       int
	}{
		{"replicas", list, nil, 3},
		{"stages", "hosta\nhostb\n", twoRanks, 2},
	} {
		t.Run(of.name, func(t *testing.T) {
			p.write(t, "hosts", of.hosts)
			dir := p.runDir(t, of.name)
			train := p.staged(of.name, append([]string{"cluster.timeout=1s"}, of.set...)...)
			launch := p.command(append([]string{"launch", "--hosts", "hosts", "--"}, train.args...)...)
			run := launch.start(t)
			run.reaches(t, dir, 1)
			link(t, "GPUTRAIN_TEST_CUT")
			require.True(t, run.until(t, "the end of all ranks", func() bool { return exec.Command("pgrep", "-f", "^"+program+" train ").Run() != nil }), "%s", run.err)
			link(t, "GPUTRAIN_TEST_MEND")
			r := run.wait(t)
			assert.Equal(t, 9, r.code, r.err)
			for _, line := range regexp.MustCompile(`(?m)^gputrain: .*$`).FindAllString(r.err, -1) {
				assert.Regexp(t, `^gputrain: state: step \d+: `, line, "it was in the middle of a step")
			}
			for _, of := range []string{"hosta", "hostb"} {
				assert.Regexp(t, `(?m)^gputrain: .*transport: \w+: rank \d \(`+of+`\): it does not answer: `, r.err)
			}
			whole := newest(t, dir)
			assert.Positive(t, whole, "none is damaged")

			r = ok(t, launch)
			assert.Contains(t, r.err, fmt.Sprintf("%d ranks on hosta, hostb", of.ranks))
			requireResumed(t, r.err, whole)
			requireSame(t, want, outcomeOf(t, dir))
		})
	}
}
