package tests

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What gputrain licenses prints are the licences of what is linked in: where the module graph has changed, make licenses writes them anew.
func TestLicensesAreCurrent(t *testing.T) {
	made := exec.Command("go", "run", "-C", "../tools", "./licenses")
	made.Stderr = os.Stderr
	want, err := made.Output()
	require.NoError(t, err)
	require.NotEmpty(t, want)
	assert.True(t, string(want) == read(t, "../cmd/gputrain/LICENSES"), "cmd/gputrain/LICENSES is of another module graph: make licenses")
}
