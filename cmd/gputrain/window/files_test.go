package window

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The board has what the files have, also while a line is being written and after a run has gone back to a checkpoint.
func TestFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	metrics := filepath.Join(dir, "metrics.jsonl")
	b := NewBoard("run", 0)
	files := newFiles(dir, b)
	write := func(text string) {
		require.NoError(t, os.WriteFile(metrics, []byte(text), 0o600))
		require.NoError(t, files.read())
	}
	steps := func() (all []int64) {
		for _, p := range b.snapshot().Loss {
			all = append(all, p.Step)
		}
		return all
	}
	require.NoError(t, files.read(), "no files yet")
	const one, two, three, other, four = `{"step":1,"loss":5,"grad_norm":2}` + "\n", `{"step":2,"loss":"NaN","grad_norm":"Infinity"}` + "\n",
		`{"step":3,"loss":3,"grad_norm":1}` + "\n", `{"step":2,"loss":4,"grad_norm":1}` + "\n",
		`{"step":4,"loss":3,"grad_norm":1}` + "\n"
	write(one + two[:9])
	assert.Equal(t, []int64{1}, steps(), "half a line")
	write(one + two)
	assert.Equal(t, []int64{1, 2}, steps())
	write(one + two + `{"step":2,"eval_loss":4.5,"eval_tokens":10,"eval_ms":1}` + "\n" + three)
	assert.Equal(t, []int64{1, 2, 3}, steps())
	assert.Equal(t, []point{{2, 4.5}}, b.snapshot().Validation)
	write(one)
	assert.Equal(t, []int64{1}, steps(), "cut back")
	assert.Empty(t, b.snapshot().Validation)
	write(one + other + three)
	assert.Equal(t, []int64{1, 2, 3}, steps())
	write(one + three + four + four) // cut back and grown past where it was, between two looks
	assert.Equal(t, []int64{1, 3, 4, 4}, steps())
	require.NoError(t, os.Remove(metrics))
	require.NoError(t, files.read())
	assert.Empty(t, steps())

	sample := filepath.Join(dir, "samples.jsonl")
	require.NoError(t, os.WriteFile(sample, []byte(`{"step":1,"prompt":"a","text":"b"}`+"\n"+`{"step":5,"prompt":"a","text":"c"}`+"\n"), 0o600))
	require.NoError(t, files.read())
	assert.Equal(t, "c", b.snapshot().Sample.Text)

	require.NoError(t, os.WriteFile(metrics, []byte("no JSON\n"), 0o600))
	assert.ErrorContains(t, files.read(), metrics)
}
