// Package tests drives the program as a user does: it builds the real binary and runs it headless, on small models and texts that the
// tests write themselves. Tests run beside each other, as a process of the program keeps one core busy; those that must meet a moment of a run, to
// kill it or to stop it there, run alone.
package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/system"
)

// program is the binary under test; workshop is a folder for what tests share.
var program, workshop string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if workshop, err = os.MkdirTemp("", "gputrain-tests-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = system.RemoveAll(workshop) }()
	if os.Getenv("GPUTRAIN_TEST_SIZE") != "" {
		return m.Run() // a process of TestSoakRealSize, which needs no program
	}
	if program = os.Getenv("GPUTRAIN_TEST_PROGRAM"); program != "" {
		return m.Run()
	}
	program = filepath.Join(workshop, "gputrain")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", program, "gputrain/cmd/gputrain").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "tests: go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// soak says that the long forms are wanted.
func soak() bool { return os.Getenv("GPUTRAIN_SOAK") == "1" }

// lines is a text that a model can learn something about: n lines, 12 bytes each on average.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of %d\n", i*i%97, i)
	}
	return b.String()
}

// tinyRun is a run file with everything on: dropout, accumulation, clipping, a schedule, evaluation, samples, rotation. A step takes some
// milliseconds on a software adapter, so that a signal has something to hit.
const tinyRun = `# a run for tests
model:     {kind: gpt2, layers: 2, heads: 2, width: 32, context: 32, dropout: 0.1}
data:      {text: text.txt, validation: 0.1}
optimizer: {name: adamw, learning_rate: 1e-2, schedule: {type: cosine, warmup_steps: 5}, weight_decay: 0.1, clip_grad: 1.0}
train:
  steps: 80
  batch: 2
  accumulate: 2
  eval_every: 8
  eval_tokens: 200
  save_every: 4
  keep: 2
  sample_every: 16
  sample_tokens: 12
  seed: 7
`

// steps, saveEvery are those of tinyRun.
const (
	steps     = 80
	saveEvery = 4
)

// place is a folder with a text and a run file, in which commands are run.
type place struct{ dir string }

func newPlace(t *testing.T) *place {
	t.Helper()
	_, err := os.Stat(program) // so that go test, which keeps results, tests a program again that has changed
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "gputrain-place-") // t.TempDir removes it by calls that wine 8 has not
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, system.RemoveAll(dir)) })
	p := &place{dir}
	p.write(t, "text.txt", lines(400))
	p.write(t, "run.yaml", tinyRun)
	return p
}

func (p *place) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
}

func (p *place) path(name ...string) string {
	return filepath.Join(append([]string{p.dir}, name...)...)
}

// runDir is the path of the run directory of that name, which is removed at the end of the test.
func (p *place) runDir(t *testing.T, name string) string {
	t.Helper()
	dir := p.path(name)
	t.Cleanup(func() { require.NoError(t, system.RemoveAll(dir)) })
	return dir
}

// command is one of the program's, to be run in the place.
func (p *place) command(args ...string) command {
	return command{program: program, dir: p.dir, args: args}
}

// train is the command that trains run.yaml in the run directory named dir, with more arguments.
func (p *place) train(dir string, more ...string) command {
	return p.command(append([]string{"train", "run.yaml", "--run-dir", dir, "--progress", "plain"}, more...)...)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return v
}
