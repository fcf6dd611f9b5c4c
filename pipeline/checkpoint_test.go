package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/pipeline"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// saver is what writes checkpoints, on however many stages.
type saver interface {
	learner
	Save(ctx context.Context, path string, run checkpoint.Run) error
}

// saved writes a checkpoint to dir and returns what its files hold.
func saved(t *testing.T, s saver, dir string) map[string]string {
	t.Helper()
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{Tokens: 5, Seed: 7}))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(raw)
	}
	require.NotEmpty(t, out)
	return out
}

// A checkpoint does not know how many stages wrote it, nor in which order they ran: from 1 to 4 stages, the same files with the same bytes, so that
// it does not matter which of them is loaded. Whatever number of stages it is loaded into goes on with the same bits, to the same bytes.
func TestCheckpointsDoNotKnowTheStages(t *testing.T) {
	devices := fleet(t, 4)
	if testing.Short() {
		devices = devices[:3]
	}
	kinds := slices.DeleteFunc(slices.Clone(optimizers), func(x listed) bool { // the others' states are of the same kinds
		return slices.Contains([]string{"adafactor", "lion", "mars", "rmsprop", "sgd"}, x.label)
	})
	for _, x := range gputest.Rows(kinds, 3) {
		t.Run(x.label, func(t *testing.T) {
			c := wrapped(families(t)["gpt2"], x.name, x.parameters, 1, 3)
			with := batches(c, 5)
			dir := t.TempDir()
			at := func(name string, stages int) string { return filepath.Join(dir, fmt.Sprint(name, stages)) }
			whole, err := state.Create(t.Context(), devices[0], c)
			require.NoError(t, err)
			defer whole.Release()
			learn(t, whole, with[:3])
			middle := saved(t, whole, at("middle", 1))
			want := learn(t, whole, with[3:])
			end := saved(t, whole, at("end", 1))
			require.NotEqual(t, middle, end)

			how := func(stages int) pipeline.Config { return order(t, c, schedule.Names()[stages%3], stages) }
			for stages := 2; stages <= len(devices); stages++ {
				s := create(t, devices[:stages], how(stages))
				learn(t, s, with[:3])
				require.Equal(t, middle, saved(t, s, at("middle", stages)), "saved by %d stages", stages)
				s.Release()
			}
			for stages := 1; stages <= len(devices); stages++ {
				s, record := load(t, devices[:stages], c, how, at("middle", len(devices)+1-stages))
				require.Equal(t, checkpoint.Run{Tokens: 5, Seed: 7}, record.Run)
				require.Equal(t, want, learn(t, s, with[3:]), "loaded into %d stages", stages)
				require.Equal(t, end, saved(t, s, at("end of ", stages)), "loaded into %d stages", stages)
				s.Release()
			}
		})
	}
}

// A copy of the stages is written while they go on learning, and has the bytes of its step. Weights alone and the optimizer alone are loaded
// into stages as into one device.
func TestStagesAreCopiedAndLoadedInParts(t *testing.T) {
	devices := fleet(t, 2)
	c := steep(families(t)["gpt2"], "quad", `{"block_size":12}`, 1, 3)
	with := batches(c, 5)
	how := order(t, c, schedule.Names()[0], 2)
	s := create(t, devices, how)
	learn(t, s, with[:3])
	dir := t.TempDir()
	want := saved(t, s, filepath.Join(dir, "now"))
	copied, err := s.CopyToHost(t.Context(), checkpoint.Run{Tokens: 5, Seed: 7})
	require.NoError(t, err)
	learn(t, s, with[3:])
	later := filepath.Join(dir, "later")
	require.NoError(t, checkpoint.Commit(checkpoint.OS, later, copied.Step, copied.Sources))
	for name, text := range want {
		raw, err := os.ReadFile(filepath.Join(later, name))
		require.NoError(t, err)
		require.Equal(t, text, string(raw), name)
	}

	found, err := state.ReadCheckpoint(how.State, later)
	require.NoError(t, err)
	defer found.Close()
	half, err := pipeline.Create(t.Context(), devices, how, found.Params)
	require.NoError(t, err)
	t.Cleanup(half.Release)
	assert.Zero(t, half.Step())
	got := saved(t, half, filepath.Join(dir, "half"))
	assert.Equal(t, want["model.safetensors"], got["model.safetensors"])
	assert.NotEqual(t, want["optimizer.safetensors"], got["optimizer.safetensors"])
	_, err = half.LoadOptimizer(t.Context(), later)
	require.NoError(t, err)
	got = saved(t, half, filepath.Join(dir, "whole"))
	assert.Equal(t, want["optimizer.safetensors"], got["optimizer.safetensors"])
}

// load is state.Load for one device, and pipeline.Load for several.
func load(t *testing.T, devices []*gpu.Device, c state.Config, how func(stages int) pipeline.Config, dir string) (interface {
	saver
	Release()
}, checkpoint.Record,
) {
	t.Helper()
	if len(devices) == 1 {
		s, record, err := state.Load(t.Context(), devices[0], c, dir)
		require.NoError(t, err)
		return s, record
	}
	s, record, err := pipeline.Load(t.Context(), devices, how(len(devices)), dir)
	require.NoError(t, err)
	require.Equal(t, record.Step, s.Step())
	return s, record
}

// A checkpoint of another optimizer is refused, and nothing stays taken.
func TestLoadRefused(t *testing.T) {
	devices := fleet(t, 2)
	c := steep(families(t)["llama"], "adamw", `{}`, 1, 2)
	s := create(t, devices, order(t, c, schedule.GPipe, 2))
	dir := filepath.Join(t.TempDir(), checkpoint.DirName(0))
	saved(t, s, dir)
	s.Release()
	before := []uint64{devices[0].Counters().LiveBytes, devices[1].Counters().LiveBytes}
	other := order(t, steep(families(t)["llama"], "muon", `{}`, 1, 2), schedule.GPipe, 2)
	_, _, err := pipeline.Load(t.Context(), devices, other, dir)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	_, _, err = pipeline.Load(t.Context(), devices, other, dir+"-none")
	require.Error(t, err)
	assert.Equal(t, before, []uint64{devices[0].Counters().LiveBytes, devices[1].Counters().LiveBytes})
}
