package tests

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// A run leaves files for TensorBoard unless it is told not to, and inspect says whose they are.
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
		refused(t, p.command("inspect", path).withoutAdapter(), 2, path, "found event files of TensorBoard", "look at them with tensorboard --logdir "+p.path("run", "tensorboard"))
	}

	ok(t, short("--fresh", "--set", "train.tensorboard=false"))
	assert.NoDirExists(t, p.path("run", "tensorboard"))
}
