package texts

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// joined puts shares of a batch together.
func joined(size int, parts ...data.Batch) (out data.Batch) {
	for _, p := range parts {
		positions := p.Positions
		if positions == nil {
			positions = data.Whole(p.Rows, size)
		}
		out.Tokens, out.Labels, out.Positions = slices.Concat(out.Tokens, p.Tokens), slices.Concat(out.Labels, p.Labels), slices.Concat(out.Positions, positions)
		out.Rows, out.Count = out.Rows+p.Rows, out.Count+p.Count
		out.State, out.Epochs = p.State, p.Epochs
	}
	return out
}

// Shares of any sizes, also of no rows, are together the whole batch, in any epoch; and so are the parts of a batch that is there.
func TestSharesAreTheBatch(t *testing.T) {
	apart, err := data.NewMixture([]data.Source{count(29), numbered(data.Layout{Packing: data.PackGreedy}, 2, 2, 3, 2, 2, 4)}, []float64{2, 1}, "all_exhausted")
	require.NoError(t, err)
	for name, source := range map[string]data.Source{
		"text":      count(29),
		"documents": numbered(data.Layout{Packing: data.PackGreedy}, 3, 2, 2, 2, 2, 9, 30, 4),
		"mixture":   three(t, "restart", 3, 2, 1),
		"apart":     apart,
	} {
		t.Run(name, func(t *testing.T) {
			const rows, size, steps = 6, 4, 12
			c := data.LoaderConfig{Context: size, Batch: rows, Seed: 5}
			whole := batches(t, source, c, steps)
			for _, sizes := range [][]int{{6}, {3, 3}, {1, 2, 3}, {0, 5, 0, 1}} {
				shares := make([][]data.Batch, steps)
				first := 0
				for _, n := range sizes {
					c := c
					c.Share, c.Prefetch = &data.Share{First: first, Rows: n}, 2
					for i, b := range batches(t, source, c, steps) {
						require.Equal(t, n, b.Rows)
						shares[i] = append(shares[i], b)
						require.Equal(t, joined(size, whole[i].Part(*c.Share)), joined(size, b))
					}
					first += n
				}
				for i, parts := range shares {
					require.Equal(t, joined(size, whole[i]), joined(size, parts...), "%v: batch %d", sizes, i)
				}
			}
		})
	}
	for _, wrong := range []data.Share{{First: -1, Rows: 2}, {Rows: -1}, {First: 5, Rows: 2}} {
		_, err := data.NewLoader(count(29), data.LoaderConfig{Context: 4, Batch: 6, Share: &wrong})
		assert.ErrorContains(t, err, fmt.Sprintf("share: %d rows from row %d on, want a range of the 6 of a batch", wrong.Rows, wrong.First))
	}
}

// Who changes the number of shares between two batches goes on to the same windows.
func TestSharesMayChange(t *testing.T) {
	source, c := three(t, "restart", 3, 2, 1), data.LoaderConfig{Context: 4, Batch: 6, Seed: 5}
	whole := batches(t, source, c, 4)
	c.State = whole[1].State
	var parts []data.Batch
	for i := range 3 {
		c.Share = &data.Share{First: 2 * i, Rows: 2}
		parts = append(parts, batches(t, source, c, 2)[1])
	}
	assert.Equal(t, joined(4, whole[3]), joined(4, parts...))
}

// A share costs the reads of its rows, and part of an evaluation those of its windows.
func TestASharesReads(t *testing.T) {
	text, documents, mixture, reads := countedSources(t)
	for name, source := range map[string]data.Source{"text": text, "documents": documents, "mixture": mixture} {
		before := reads()
		batches(t, source, data.LoaderConfig{Context: 4, Batch: 8, Share: &data.Share{First: 5, Rows: 3}}, 2)
		assert.Equal(t, 2*3, reads()-before, name)
	}
	e, err := data.NewEvaluation(text, 4, 8, 40)
	require.NoError(t, err)
	before := reads()
	part, err := e.Part(3, 2)
	require.NoError(t, err)
	require.Equal(t, 2, part.Batches())
	for i := range 2 {
		found, err := part.Batch(i)
		require.NoError(t, err)
		assert.Equal(t, 8*(i+1), reads()-before)
		wanted, err := e.Batch(3 + i)
		require.NoError(t, err)
		assert.Equal(t, wanted, found)
		before += 8
	}
	_, err = e.Part(3, 3)
	assert.ErrorContains(t, err, "batches [3, 6): outside of [0, 5)")
}
