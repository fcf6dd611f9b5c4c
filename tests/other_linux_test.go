package tests

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// otherTolerance is how far losses of the program of another processor may be from this one's, relatively, after twenty steps: drivers round and order
// sums by the width of vectors, a few parts in 10^7 of a step, and training lets that grow.
const otherTolerance = 1e-4

// The program of another system, run here, trains as this one does: GPUTRAIN_TEST_OTHER is the command that runs it, such as `wine64 gputrain.exe`. On the
// same driver it leaves the same bits, on an emulated processor's the same losses.
func TestOtherSystem(t *testing.T) {
	other := strings.Fields(os.Getenv("GPUTRAIN_TEST_OTHER"))
	if len(other) == 0 {
		t.Skip("no GPUTRAIN_TEST_OTHER")
	}
	p, want := undisturbedRun(t)
	train := func(dir string, more ...string) command {
		return p.train(dir, more...).with(func(c *command) { c.program, c.args = other[0], append(other[1:len(other):len(other)], c.args...) })
	}
	if strings.HasSuffix(other[len(other)-1], ".exe") {
		runDir := p.runDir(t, "other")
		ok(t, train("other"))
		requireSame(t, want, outcomeOf(t, runDir))
		return
	}
	twenty := []string{"--set", "train.steps=20"}
	here, there := p.runDir(t, "here"), p.runDir(t, "there")
	ok(t, p.train("here", twenty...))
	ok(t, train("there", twenty...))
	losses, others := metricsOf(t, here), metricsOf(t, there)
	require.Len(t, others, len(losses))
	for i, m := range losses {
		for _, key := range []string{"loss", "eval_loss", "grad_norm"} {
			if expected, is := m[key].(float64); is {
				got, _ := others[i][key].(float64)
				assert.InEpsilon(t, expected, got, otherTolerance, "%s of step %v", key, m["step"])
				t.Logf("step %v %s %v here, %v there", m["step"], key, expected, got)
			}
		}
	}
}
