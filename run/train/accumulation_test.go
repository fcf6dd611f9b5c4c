package train

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state"
)

// A run goes on adding up its gradients as it began, also where it does not say how. A record
// without the key is of an older program. It ends with the bits of an undisturbed one; the two ways have different bits.
func TestAccumulationStaysAsItBegan(t *testing.T) {
	dev := gputest.Device(t)
	run := func(dir, accumulation string, until int64) (outcome, string) {
		var out bytes.Buffer
		c := tinyRun(t, dir)
		c.State.Accumulation, c.Output = accumulation, &out
		ctx := t.Context()
		if until < c.Steps {
			stop, hook := stopAt(StepEnd, until)
			ctx, c.Hooks = stop, []Hook{hook}
			_, err := Run(ctx, dev, c)
			require.ErrorIs(t, err, ErrStopped)
			return outcome{}, out.String()
		}
		_, err := Run(ctx, dev, c)
		require.NoError(t, err)
		return outcomeOf(t, dir), out.String()
	}
	forget := func(dir string) {
		path := filepath.Join(dir, runFile)
		text := textAt(t, path)
		without := regexp.MustCompile(`(?m)^ *accumulation: .*\n`).ReplaceAllString(text, "")
		require.Less(t, len(without), len(text))
		require.NoError(t, os.WriteFile(path, []byte(without), 0o666))
	}
	want := map[string]outcome{}
	for _, how := range []string{state.AccumulateTree, state.AccumulateSequence} {
		want[how], _ = run(t.TempDir(), how, 12)
		if how == state.AccumulateTree {
			dir := t.TempDir()
			run(dir, "", 5)
			got, said := run(dir, "", 12)
			assert.Equal(t, want[how].checkpoint["model.safetensors"], got.checkpoint["model.safetensors"])
			assert.NotContains(t, said, accumulationKey)
			continue
		}
		dir := t.TempDir()
		run(dir, how, 4)
		_, said := run(dir, "", 8)
		assert.Contains(t, said, "train.accumulation sequence, as this run began")
		got, said := run(dir, "", 12)
		assert.Contains(t, said, "train.accumulation sequence, as this run began", "it is recorded")
		assert.Equal(t, want[how], got)

		var changed *ChangedError
		c := tinyRun(t, dir)
		c.State.Accumulation = state.AccumulateTree
		_, err := Run(t.Context(), dev, c)
		require.ErrorAs(t, err, &changed)
		assert.Equal(t, []string{accumulationKey, `"sequence"`, `"tree"`}, []string{changed.Key, changed.Found, changed.Wanted})

		forget(dir)
		var refused *DirError
		c = tinyRun(t, dir)
		_, err = Run(t.Context(), dev, c)
		require.ErrorAs(t, err, &refused)
		assert.ErrorContains(t, err, "run.yaml: found no train.accumulation, wanted one: an older program made this run")
	}
	assert.NotEqual(t, want[state.AccumulateTree].checkpoint["model.safetensors"], want[state.AccumulateSequence].checkpoint["model.safetensors"])
}
