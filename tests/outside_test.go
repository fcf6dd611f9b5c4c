package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

// outside builds tests/outside, a module of its own, in dir, without a network.
func outside(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "outside")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// A program of another module brings an operation, a family, an optimizer and an operator, which its own run file names; it trains with them,
// is resumed, and on two stages comes to the same bits.
func TestOutside(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestEmbeddingExample")
	p := newPlace(t)
	r := ok(t, p.command().with(func(c *command) { c.program = outside(t, "outside") }))
	for _, done := range []string{
		"check graph running_mean: error ", "check optim.centred: error ", "two stages/resumed: step 6: loss ",
		"one device: a resumed run ends with the bits of one that was not stopped\n", "two stages: a resumed run ends with the bits of one that was not stopped\n",
		"two stages end with the bits of one device\n",
	} {
		assert.Contains(t, r.out, done)
	}
	losses := regexp.MustCompile(`two stages/whole: step \d: loss (\d+\.\d+)\n`).FindAllStringSubmatch(r.out, -1)
	require.Len(t, losses, 6)
	assert.Less(t, number(t, losses[5][1]), number(t, losses[0][1]), "it learns")
}

// What it compares can differ: an operator that does not save its state comes to other bits when it is resumed.
func TestOutsideCanFail(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "TestEmbeddingExample")
	p := newPlace(t)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("outside")))
	for file, change := range map[string][2]string{
		"go.mod":      {"=> ../..", "=> " + root},
		"operator.go": {"return w.means.WriteRaw(means.Path, raw)", "return nil"},
	} {
		text := read(t, filepath.Join("outside", file))
		require.Contains(t, text, change[0])
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(text, change[0], change[1], 1)), 0o666))
	}
	r := p.command().with(func(c *command) { c.program = outside(t, dir) }).run(t)
	require.Equal(t, 1, r.code, r.out)
	assert.Contains(t, r.err, "differ")
}

// The page shows the parts as they stand; its lines may be broken in other places.
func TestPageQuotesTheOutside(t *testing.T) {
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	page := words(read(t, embeddingPage))
	for file, parts := range map[string][]string{
		"operation.go": {"func init() {", "func lowerRunningMean("},
		"model.go":     {"func init() {", "func (a averages) Build("},
		"optimizer.go": {"func (c *centred) heavyBall()", "func (c *centred) Transform("},
		"operator.go":  {"func (w *centring) Record("},
	} {
		source := read(t, filepath.Join("outside", file))
		for _, begins := range parts {
			_, after, ok := strings.Cut(source, "\n"+begins)
			require.True(t, ok, begins)
			body, _, ok := strings.Cut(after, "\n}\n")
			require.True(t, ok, begins)
			assert.Contains(t, page, words(begins+body+"\n}"), "docs/embedding.md does not show %s of tests/outside/%s as it is", begins, file)
		}
	}
}
