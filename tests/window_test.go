package tests

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The default build has no part of a window, and says how to get one.
func TestDefaultBuildHasNoWindow(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "gputrain/cmd/gputrain").Output()
	require.NoError(t, err)
	assert.NotContains(t, string(out), "glfw")
	assert.NotContains(t, string(out), "cmd/gputrain/window")
	p := newPlace(t)
	for _, args := range [][]string{{"train", "--run-dir", "r", "run.yaml", "--window"}, {"watch", "r"}} {
		refused(t, p.command(args...).withoutAdapter(), 2, "make window")
	}
	help := ok(t, p.command("train", "--help").withoutAdapter())
	assert.NotContains(t, help.out, "--window")
}
