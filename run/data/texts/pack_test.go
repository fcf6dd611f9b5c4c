package texts

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// Every pair of neighbours in a document is one input with its label, once, whatever the packing: no token gets lost and none comes from
// another document. Windows are as long as they must be (a packer that keeps only the last part of a document longer than its window, or
// makes rows of other lengths, fails here).
func TestEveryTokenIsLearnedOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for _, packing := range data.Packings {
		for _, size := range []int{1, 2, 3, 4, 5, 8, 31} {
			lengths := []int{11, 9, 2, 0, 1, size, size + 1, size + 2, 2*size + 1, 1} // 11 and 4, 9 and 5: where others lost tokens
			for range 60 {
				lengths = append(lengths, random.IntN(3*size+2))
			}
			want := map[[2]int32]int{}
			for d, n := range lengths {
				for j := range n - 1 {
					want[[2]int32{int32(1000*d + j), int32(1000*d + j + 1)}] = 1
				}
			}
			tokens, labels := rows(t, numbered(data.Layout{Packing: packing}, lengths...), size)
			got := map[[2]int32]int{}
			for row := range tokens {
				for i, label := range labels[row] {
					if label != data.Ignored {
						got[[2]int32{tokens[row][i], label}]++
					}
				}
			}
			require.Equal(t, want, got, "%s, windows of %d", packing, size)
		}
	}
}

func TestPackings(t *testing.T) {
	const x = data.Ignored
	for _, c := range []struct {
		packing, long  string
		tokens, labels [][]int32
	}{
		// Documents of 3, 6, 2, 1 and 2 tokens in windows of 4.
		{
			data.PackNone, data.LongSplit,
			[][]int32{{0, 1, 2, 0}, {1000, 1001, 1002, 1003}, {1004, 1005, 0, 0}, {2000, 2001, 0, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1001, 1002, 1003, 1004}, {1005, x, x, x}, {2001, x, x, x}, {4001, x, x, x}},
		},
		{
			data.PackFirstFit, data.LongSplit,
			[][]int32{{1000, 1001, 1002, 1003}, {1004, 1005, 2000, 2001}, {0, 1, 2, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1001, 1002, 1003, 1004}, {1005, x, 2001, x}, {1, 2, x, x}, {4001, x, x, x}},
		},
		{
			data.PackGreedy, data.LongSplit,
			[][]int32{{0, 1, 2, 0}, {1000, 1001, 1002, 1003}, {1004, 1005, 2000, 2001}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1001, 1002, 1003, 1004}, {1005, x, 2001, x}, {4001, x, x, x}},
		},
		{
			data.PackStream, data.LongSplit,
			[][]int32{{0, 1, 2, 1000}, {1001, 1002, 1003, 1004}, {2000, 2001, 4000, 4001}},
			[][]int32{{1, 2, x, 1001}, {1002, 1003, 1004, 1005}, {2001, x, 4001, x}},
		},
		{
			data.PackNone, data.LongKeepStart,
			[][]int32{{0, 1, 2, 0}, {1000, 1001, 1002, 1003}, {2000, 2001, 0, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1001, 1002, 1003, 1004}, {2001, x, x, x}, {4001, x, x, x}},
		},
		{
			data.PackNone, data.LongKeepEnd,
			[][]int32{{0, 1, 2, 0}, {1001, 1002, 1003, 1004}, {2000, 2001, 0, 0}, {4000, 4001, 0, 0}},
			[][]int32{{1, 2, x, x}, {1002, 1003, 1004, 1005}, {2001, x, x, x}, {4001, x, x, x}},
		},
	} {
		d := numbered(data.Layout{Packing: c.packing, Long: c.long}, 3, 6, 2, 1, 2)
		tokens, labels := rows(t, d, 4)
		assert.Equal(t, c.tokens, tokens, "%s %s", c.packing, c.long)
		assert.Equal(t, c.labels, labels, "%s %s", c.packing, c.long)
	}
	d := numbered(data.Layout{}, 1, 0, 3)
	p, err := d.pack(d.later(), 4)
	require.NoError(t, err)
	assert.EqualValues(t, 2, p.left, "documents without a label")
	d = numbered(data.Layout{}, 1, 0)
	_, err = d.pack(d.later(), 4)
	require.ErrorContains(t, err, "no document has a label that counts")
}

// Packing wastes little: the bound is what next-fit can waste at worst, half; first-fit is to be better than greedy, stream to waste nothing.
func TestPackingFillsWindows(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var lengths []int
	for range 2000 {
		lengths = append(lengths, 2+random.IntN(100))
	}
	windows := map[string]int{}
	for _, packing := range data.Packings {
		d := numbered(data.Layout{Packing: packing}, lengths...)
		p, err := d.pack(d.later(), 128)
		require.NoError(t, err)
		windows[packing] = int(p.Windows())
	}
	total := 0
	for _, n := range lengths {
		total += n
	}
	assert.Equal(t, 2000, windows[data.PackNone])
	assert.InDelta(t, total/128+1, windows[data.PackStream], 1)
	assert.Less(t, windows[data.PackFirstFit], total*110/100/128)
	assert.Less(t, windows[data.PackFirstFit], windows[data.PackGreedy])
	assert.Less(t, windows[data.PackGreedy], total*2/128)
}

// Positions begin anew with each document of a window, and with what is left of it; where documents see each other, or have a window each, there
// are none.
func TestPositionsOfDocuments(t *testing.T) {
	first := func(layout data.Layout) []int32 {
		e, err := data.NewEvaluation(numbered(layout, 3, 2, 3, 6), 7, 2, 0)
		require.NoError(t, err)
		b, err := e.Batch(0)
		require.NoError(t, err)
		return b.Positions
	}
	require.Equal(t, []int32{0, 1, 2, 0, 1, 0, 1, 0, 1, 2, 0, 1, 2, 3}, first(data.Layout{Packing: data.PackGreedy}), "the third window is not read")
	require.Nil(t, first(data.Layout{Together: true}))
	require.Nil(t, first(data.Layout{Packing: data.PackNone}))
}
