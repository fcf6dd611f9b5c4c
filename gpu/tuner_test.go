package gpu_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

// choices are a slow and a fast candidate, and how often each was recorded.
func choices(t *testing.T, d *gpu.Device, runs map[string]int) []gpu.Candidate {
	out := storage(t, d, "out", make([]float32, 64)...)
	candidate := func(name string, groups uint32, rounds byte) gpu.Candidate {
		return gpu.Candidate{Name: name, Run: func(r *gpu.Recording) error {
			runs[name]++
			r.Dispatch(gputest.BusyKernel, gpu.Grid{X: groups, Y: 1, Z: 1}, [4]uint32{uint32(rounds) << 8}, out.All())
			return nil
		}}
	}
	return []gpu.Candidate{candidate("slow", 16, 255), candidate("fast", 1, 1)}
}

func TestChoose(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GPUTRAIN_CACHE", filepath.Join(dir, "cache"))
	d := gputest.Device(t)
	runs := map[string]int{}
	c := choices(t, d, runs)
	name, err := d.Choose(t.Context(), "k 64", c)
	require.NoError(t, err)
	require.Equal(t, "fast", name)
	require.Equal(t, map[string]int{"slow": 1, "fast": 1}, runs)
	name, err = d.Choose(t.Context(), "k 64", c)
	require.NoError(t, err)
	require.Equal(t, "fast", name)
	require.Equal(t, 1, runs["fast"], "measured once")

	// Another device of the adapter finds it on disk.
	other := gputest.Device(t)
	runs2 := map[string]int{}
	name, err = other.Choose(t.Context(), "k 64", choices(t, other, runs2))
	require.NoError(t, err)
	require.Equal(t, "fast", name)
	require.Empty(t, runs2)
	// A remembered name that is no longer a candidate is measured anew; other keys stay.
	name, err = other.Choose(t.Context(), "k 128", choices(t, other, runs2)[:1])
	require.NoError(t, err)
	require.Equal(t, "slow", name, "a single candidate is not measured")
	renamed := choices(t, other, runs2)
	renamed[1].Name = "faster"
	name, err = other.Choose(t.Context(), "k 64", renamed)
	require.NoError(t, err)
	require.Equal(t, "faster", name)

	off := gputest.Device(t)
	off.SetAutotune(false)
	name, err = off.Choose(t.Context(), "k 64", choices(t, off, runs2))
	require.NoError(t, err)
	require.Equal(t, "slow", name, "the first")
}

func TestChooseSurvivesABadCache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GPUTRAIN_CACHE", dir)
	first := gputest.Device(t)
	_, err := first.Choose(t.Context(), "k", choices(t, first, map[string]int{}))
	require.NoError(t, err)
	temporary, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, temporary)
	files, err := filepath.Glob(filepath.Join(dir, "choices-*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	good, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for _, bad := range []string{"", "{", `{"version": 99, "choices": {"k": "slow"}}`, "null", string(good[:len(good)/2])} {
		require.NoError(t, os.WriteFile(files[0], []byte(bad), 0o600))
		d := gputest.Device(t)
		runs := map[string]int{}
		name, err := d.Choose(t.Context(), "k", choices(t, d, runs))
		require.NoError(t, err)
		require.Equal(t, "fast", name)
		require.Equal(t, 1, runs["fast"], "measured, as %q says nothing", bad)
		again, err := os.ReadFile(files[0])
		require.NoError(t, err)
		require.Equal(t, string(good), string(again), "written anew")
	}
	// A folder that cannot be written costs the memory, not the choice.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	t.Setenv("GPUTRAIN_CACHE", filepath.Join(dir, "file", "below"))
	d := gputest.Device(t)
	name, err := d.Choose(t.Context(), "k", choices(t, d, map[string]int{}))
	require.NoError(t, err)
	require.Equal(t, "fast", name)
}

func TestChoosePassesOverWhatCannotRun(t *testing.T) {
	t.Setenv("GPUTRAIN_CACHE", t.TempDir())
	d := gputest.Device(t)
	c := choices(t, d, map[string]int{})
	errNo := errors.New("not here")
	c[1].Run = func(*gpu.Recording) error { return errNo }
	name, err := d.Choose(t.Context(), "k", c)
	require.NoError(t, err)
	require.Equal(t, "slow", name)
	c[0].Run = func(r *gpu.Recording) error { r.Dispatch(nil, gpu.Grid{}, nil); return nil }
	_, err = d.Choose(t.Context(), "l", c)
	require.ErrorIs(t, err, errNo)
	require.ErrorContains(t, err, `gpu: choose "l": slow: gpu: record`)
	_, err = d.Choose(t.Context(), "m", nil)
	require.ErrorContains(t, err, "no candidates")
	before := d.Counters().LiveBytes
	_, err = d.Choose(t.Context(), "n", choices(t, d, map[string]int{}))
	require.NoError(t, err)
	require.Equal(t, before+256, d.Counters().LiveBytes, "trials are released, the test's own buffer stays")
}
