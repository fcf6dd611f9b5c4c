//go:build unix

package train

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/formats"
	"gputrain/internal/gputest"
	"gputrain/run/data"
	"gputrain/run/data/texts"
)

// A process killed at any time, ten times over, ends with the same bits. The saves of every step make it likely that some of the kills
// meet one.
func TestKilled(t *testing.T) {
	gputest.Long(t, "tests.TestKilledAtRandomMoments kills a run, tests.TestARunOfAdapters resumes one of adapters, and cuts it into stages")
	if row, dir, ok := strings.Cut(os.Getenv("GPUTRAIN_TEST_KILLED"), "="); ok {
		require.NoError(t, toBeKilled[row](t, dir))
		return
	}
	gputest.Device(t)
	for row, run := range toBeKilled {
		t.Run(row, func(t *testing.T) { testKilled(t, row, run) })
	}
}

// toBeKilled are runs in a directory, by name.
var toBeKilled = map[string]func(t *testing.T, dir string) error{
	"a network": func(t *testing.T, dir string) error {
		_, err := Run(t.Context(), gputest.Device(t), killedRun(t, dir))
		return err
	},
	"storage in bf16, state in eight bits": func(t *testing.T, dir string) error {
		c := killedRun(t, dir)
		c.State.Storage, c.State.Optimizer.Parameters = buffers.BF16, json.RawMessage(`{"state_dtype":"8bit"}`)
		_, err := Run(t.Context(), gputest.Device(t), c)
		return err
	},
	"products of f16": func(t *testing.T, dir string) error {
		c := killedRun(t, dir)
		c.State.RoundProducts = true
		_, err := Run(t.Context(), gputest.Device(t), c)
		return err
	},
	"rollouts": func(t *testing.T, dir string) error {
		c := lettersRun(t, "dapo", 3)
		c.Dir, c.Steps, c.EvalEvery, c.SaveEvery = dir, 12, 4, Every(1)
		c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
			if e.Kind == StepBegin || e.Kind == Generated {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})}
		_, err := Run(t.Context(), gputest.Device(t), c)
		return err
	},
	"adapters": func(t *testing.T, dir string) error {
		_, err := Run(t.Context(), gputest.Device(t), killedAdapters(t, dir))
		return err
	},
	"adapters on two stages": func(t *testing.T, dir string) error {
		dev, c := gputest.Device(t), killedAdapters(t, dir)
		_, err := RunOn(t.Context(), Pipelined([]*gpu.Device{dev, dev}, twoStages(t, c.State)), c)
		return err
	},
}

// killedAdapters is killedRun of adapters upon a base beside the directory, which learn the completions of packed documents.
func killedAdapters(t *testing.T, dir string) Config {
	t.Helper()
	c, base := killedRun(t, dir), filepath.Join(filepath.Dir(dir), "base")
	if _, err := os.Stat(base); err != nil {
		exportDrawn(t, base, c.State.Definition)
	}
	var rows strings.Builder
	for i := range 60 {
		fmt.Fprintf(&rows, "{\"prompt\": [%d, 7], \"completion\": [%d, 9, %d]}\n", i+1, 3*i+1, 2*i+5)
	}
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o666))
	corpus, err := texts.Open(t.Context(), texts.Config{
		JSONL: []string{file}, Format: formats.Fields, Fields: data.Fields{Prompt: "prompt", Text: "completion"}, Vocab: 256, Validation: 0.2, Context: 16,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, corpus.Close()) })
	c.Train, c.Validation, c.State.Documents = corpus.Train, corpus.Validation, true
	return upon(t, c, base)
}

func testKilled(t *testing.T, row string, run func(t *testing.T, dir string) error) {
	whole := t.TempDir()
	require.NoError(t, run(t, whole))
	want := outcomeOf(t, whole)

	dir := t.TempDir()
	program, err := os.Executable()
	require.NoError(t, err)
	kills, most, seen := 0, 10, map[int64]bool{}
	if testing.Short() {
		most = 4
	}
	for try := 0; kills < most; try++ {
		require.Less(t, try, 40)
		cmd := exec.Command(program, "-test.run=^TestKilled$", "-test.v")
		cmd.Env = append(os.Environ(), "GPUTRAIN_TEST_KILLED="+row+"="+dir)
		require.NoError(t, cmd.Start())
		over := make(chan error, 1)
		go func() { over <- cmd.Wait() }()
		// Let it get as far as one more checkpoint, and a bit, which differs each time.
		before := newestStep(t, dir)
		deadline := time.Now().Add(gputest.Patience)
		for newestStep(t, dir) <= before && len(over) == 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(try*try*3%17) * time.Millisecond)
		if len(over) == 0 {
			require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
			kills++
		}
		<-over
		seen[newestStep(t, dir)] = true
		if newestStep(t, dir) == 12 {
			break // it was faster than the kills; what it has been through counts
		}
	}
	t.Logf("%d kills, found at steps %v", kills, seen)
	require.Greater(t, kills, 3)
	require.NoError(t, run(t, dir))
	sameOutcome(t, want, outcomeOf(t, dir))
}

func killedRun(t testing.TB, dir string) Config {
	c := tinyRun(t, dir)
	c.SaveEvery = Every(1)
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == StepBegin {
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})}
	return c
}
