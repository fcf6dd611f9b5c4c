package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu/gputest"
)

// A run leaves files for TensorBoard unless it is told not to, and inspect shows them.
func TestTensorBoard(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "tests of train/tensorboard")
	p := newPlace(t)
	short := func(more ...string) command {
		return p.train("run", append([]string{"--set", "train.steps=6", "--set", "train.sample_tokens=8"}, more...)...)
	}
	ok(t, short())
	files, err := filepath.Glob(p.path("run", "tensorboard", "events.out.tfevents.*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	for _, path := range []string{p.path("run", "tensorboard"), files[0]} {
		out := ok(t, p.command("inspect", path).withoutAdapter()).out
		assert.Contains(t, out, "event files: 1; processes began at step 1\n")
		assert.Regexp(t, `(?m)^train/loss +scalar +6 +1 +6 +\d`, out)
		assert.Regexp(t, `(?m)^sample +text +1 +6 +6 +"`, out)
		assert.Len(t, objects(t, ok(t, p.command("inspect", "--json", path).withoutAdapter()).out), strings.Count(out, "\n")-2)
	}
	refused(t, p.command("inspect", "--optimizer", p.path("run", "tensorboard")).withoutAdapter(), 2, "wanted a run directory")

	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	whole[len(whole)/2] ^= 1
	require.NoError(t, os.WriteFile(files[0], whole, 0o666))
	refused(t, p.command("inspect", files[0]).withoutAdapter(), 6, "record at byte", "checksum")

	ok(t, short("--fresh", "--set", "train.tensorboard=false"))
	assert.NoDirExists(t, p.path("run", "tensorboard"))
}
