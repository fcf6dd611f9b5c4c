package data

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCollator(t *testing.T) {
	const x = Ignored
	documents := []Document{
		{Tokens: []int32{1, 2, 3, 4, 5, 6}},
		{Tokens: []int32{1, 2, 3, 4, 5, 6}, Counts: []bool{false, false, true, false, true, true}},
		{Tokens: []int32{7, 8, 9}},
		{Tokens: []int32{7}},
		{},
	}
	for long, want := range map[string]Batch{
		LongKeepStart: {
			Tokens: []int32{1, 2, 3, 4, 1, 2, 3, 4, 7, 8, 9, 0, 7, 0, 0, 0, 0, 0, 0, 0},
			Labels: []int32{2, 3, 4, 5, x, 3, x, 5, 8, 9, x, x, x, x, x, x, x, x, x, x},
			Rows:   5, Count: 8,
		},
		LongKeepEnd: {
			Tokens: []int32{2, 3, 4, 5, 2, 3, 4, 5, 7, 8, 9, 0, 7, 0, 0, 0, 0, 0, 0, 0},
			Labels: []int32{3, 4, 5, 6, 3, x, 5, 6, 8, 9, x, x, x, x, x, x, x, x, x, x},
			Rows:   5, Count: 9,
		},
	} {
		c, err := NewCollator(4, long)
		require.NoError(t, err)
		got, err := c.Collate(documents...)
		require.NoError(t, err)
		assert.Equal(t, want, got, long)
	}
	c, err := NewCollator(4, LongKeepEnd)
	require.NoError(t, err)
	_, err = c.Collate(Document{Tokens: []int32{1, 2}, Counts: []bool{true}})
	require.ErrorContains(t, err, "document 0: 2 tokens, but 1 say whether they count")
	_, err = NewCollator(4, LongSplit)
	require.ErrorContains(t, err, `long documents "split"`)
	_, err = NewCollator(0, LongKeepEnd)
	require.ErrorContains(t, err, "context 0")
}

// A batch without rows has parts without rows.
func TestPartOfAnEmptyBatch(t *testing.T) {
	assert.Equal(t, Batch{Tokens: []int32{}, Labels: []int32{}}, Batch{Tokens: []int32{}, Labels: []int32{}}.Part(Share{}))
}

// A row has its tokens up to the last that is not 0, and up to the last label that counts.
func TestTokensThere(t *testing.T) {
	b := Batch{
		Rows: 3, Tokens: []int32{5, 0, 7, 0, 5, 0, 0, 0, 0, 0, 0, 0},
		Labels: []int32{-100, -100, -100, -100, 0, 0, -100, -100, -100, -100, -100, -100},
	}
	assert.Equal(t, []float32{1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0}, b.There())
}
