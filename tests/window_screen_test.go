//go:build window

package tests

import (
	"image"
	"image/color"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/window/screen"
)

// The colors of what a window shows.
var (
	lossLine   = color.RGBA{88, 166, 255, 255}
	validLine  = color.RGBA{255, 179, 84, 255}
	normLine   = color.RGBA{126, 214, 150, 255}
	weightBars = color.RGBA{190, 148, 235, 255}
)

// shows says whether a picture has at least so many pixels of each color.
func shows(picture *image.RGBA, least int, colors ...color.RGBA) bool {
	counts := map[color.RGBA]int{}
	for y := range picture.Rect.Dy() {
		for x := range picture.Rect.Dx() {
			counts[picture.RGBAAt(x, y)]++
		}
	}
	for _, c := range colors {
		if counts[c] < least {
			return false
		}
	}
	return true
}

// A run in a window shows everything while it trains, and learns the same bits as one without; a run that has ended is shown by watch.
func TestWindow(t *testing.T) {
	server := screen.New(t, 1280, 800)
	p := newPlace(t)
	windowed := filepath.Join(workshop, "gputrain-window")
	out, err := exec.Command("go", "build", "-tags", "window", "-o", windowed, "gputrain/cmd/gputrain").CombinedOutput()
	require.NoError(t, err, "%s", out)

	more := []string{"--set", "train.steps=120", "--set", "train.save_every=120"}
	shown := p.train("shown", append(more, "--window")...).with(func(c *command) { c.program = windowed }).start(t)
	all := func() bool { return shows(server.Picture(t), 30, lossLine, validLine, normLine, weightBars) }
	require.True(t, shown.until(t, "curves and histograms on the screen", all), shown.err)
	screen.Keep(t, server.Picture(t), "train")
	require.Zero(t, shown.wait(t).code, shown.err)
	ok(t, p.train("plain", more...))
	model := func(run string) string {
		return read(t, p.path(run, "checkpoints", "step-00000120", "model.safetensors"))
	}
	assert.Equal(t, model("plain"), model("shown"))

	watch := p.command("watch", "plain").with(func(c *command) { c.program = windowed }).start(t)
	require.True(t, watch.until(t, "curves and histograms on the screen", all), watch.err)
	screen.Keep(t, server.Picture(t), "watch")
	require.NoError(t, watch.cmd.Process.Signal(syscall.SIGINT))
	assert.Zero(t, watch.wait(t).code, watch.err)
}
