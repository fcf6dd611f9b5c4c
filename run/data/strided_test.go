package data

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// written is a text whose bytes are its tokens.
func written(text string) *Tokens {
	return NewTokens(256, []Stretch{{Name: "written", Bytes: strings.NewReader(text), Width: 1, Count: int64(len(text))}})
}

// Windows and labels are those of the loop that people write: for begin in range(0, n, stride), of the window's predictions the last
// end - previous end.
func TestStrided(t *testing.T) {
	for _, c := range []struct{ tokens, window, stride, batch int }{
		{40, 12, 5, 3},
		{12, 12, 5, 1},
		{13, 12, 5, 2},
		{17, 12, 5, 2},
		{18, 12, 5, 2},
		{5, 12, 5, 1},
		{40, 12, 11, 4},
		{9, 3, 1, 2},
		{2, 2, 1, 1},
		{40, 12, 12, 3},
		{12, 12, 12, 1},
		{13, 12, 12, 1},
		{14, 12, 12, 2},
		{36, 12, 12, 2},
		{5, 12, 12, 1},
	} {
		text := make([]byte, c.tokens)
		for i := range text {
			text[i] = byte('a' + i)
		}
		e, err := NewEvaluation(Strided{written(string(text)), c.stride}, c.window, c.batch, 0)
		require.NoError(t, err)

		row, before := 0, 0
		for begin := 0; begin < c.tokens; begin += c.stride {
			end := min(begin+c.window, c.tokens)
			b, err := e.Batch(row / c.batch)
			require.NoError(t, err)
			at := row % c.batch * c.window
			for i := range c.window {
				if begin+i < end-1 {
					assert.EqualValues(t, text[begin+i], b.Tokens[at+i])
				}
				p, want := begin+i+1, int32(Ignored)
				if p < end && p >= before {
					want = int32(text[p])
				}
				assert.Equal(t, want, b.Labels[at+i], "%+v: window %d, label of %d", c, row, begin+i)
			}
			row, before = row+1, end
			if c.tokens <= max(end, begin+c.stride+1) { // no token is left, or one that begins a window, which nothing predicts
				break
			}
		}
		assert.EqualValues(t, row, e.Windows())
		count := 0
		for i := range e.Batches() {
			b, err := e.Batch(i)
			require.NoError(t, err)
			count += b.Count
		}
		starts := 0
		if c.stride == c.window {
			starts = (c.tokens - 1) / c.window
		}
		assert.Equal(t, c.tokens-1-starts, count)
	}
	for _, stride := range []int{0, 13} {
		_, err := NewEvaluation(Strided{NewTokens(9, nil), stride}, 12, 1, 0)
		assert.ErrorContains(t, err, "found windows of 12 tokens with stride")
	}
	_, err := NewLoader(Strided{NewTokens(9, nil), 3}, LoaderConfig{Context: 12, Batch: 1})
	assert.ErrorContains(t, err, "wanted a text to train on")
}

func TestAfter(t *testing.T) {
	text := written("ab")
	assert.Same(t, text, text.After(nil))
	behind := text.After([]int32{300, 2})
	assert.Equal(t, 301, behind.Vocab())
	got := make([]int32, behind.Len())
	require.NoError(t, behind.Read(got, 0))
	assert.Equal(t, []int32{300, 2, 'a', 'b'}, got)
}
