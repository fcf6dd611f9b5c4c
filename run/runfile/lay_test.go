package runfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Files that are laid over a clone are those of no other, however many there were before.
func TestClonesAreApart(t *testing.T) {
	for n := range 9 {
		c := New()
		for range n {
			require.NoError(t, c.Take(Text{Path: "common.yaml", Text: []byte("optimizer: {b1: 0.8}")}))
		}
		one, two := c.Clone(), c.Clone()
		require.NoError(t, one.Take(Text{Path: "one.yaml", Text: []byte("optimizer: {b1: 0.7}")}))
		require.NoError(t, two.Take(Text{Path: "two.yaml", Text: []byte("optimizer: {b1: 0.6}")}))
		assert.Len(t, c.Read, n)
		assert.Equal(t, "one.yaml", one.Read[n].Path)
		assert.Equal(t, "two.yaml", two.Read[n].Path)
		assert.Equal(t, []any{0.7, 0.6}, []any{one.Optimizer.Parameters["b1"], two.Optimizer.Parameters["b1"]})
		assert.Equal(t, Origin("one.yaml:1"), one.Origin("optimizer.parameters.b1"))
	}
}

// With lays more over a run file, which stays as it is; defaults follow what is laid.
func TestWith(t *testing.T) {
	c := readAll(t, "model.from=m")
	other, err := c.With("lora.rank=8", "train.batch=1")
	require.NoError(t, err)
	want := readAll(t, "model.from=m", "lora.rank=8", "train.batch=1")
	assert.Equal(t, want, other)
	assert.Equal(t, readAll(t, "model.from=m"), c)
	_, err = c.With("train.batch=0")
	assert.Error(t, err)
	_, err = c.With("train.bath=1")
	assert.Error(t, err)
}
