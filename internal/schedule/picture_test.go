package schedule

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPicture(t *testing.T) {
	for want, c := range map[string]Config{
		`
stage 0  012......0'1'2'
stage 1  .012...0'1'2'..
stage 2  ..0120'1'2'....
`: {GPipe, 3, 1, 3, 0},
		`
stage 0  012....0'31'.2'.3'
stage 1  .01..0'21'32'.3'..
stage 2  ..00'11'22'33'....
`: {OneForwardOneBackward, 3, 1, 4, 0},
	} {
		s, err := New(c)
		require.NoError(t, err)
		assert.Equal(t, want, "\n"+s.Picture(80), c)
	}
}

func TestPictureOfWidth(t *testing.T) {
	s, err := New(Config{OneForwardOneBackward, 11, 1, 30, 0})
	require.NoError(t, err)
	whole := strings.Split(s.Picture(1e6), "\n")
	require.Len(t, whole[0], len("stage  0  ")+3*(30+11-1))
	for _, width := range []int{40, 77, 78, 129} {
		for i, row := range strings.Split(strings.TrimSuffix(s.Picture(width), "\n"), "\n") {
			require.Len(t, row, width)
			head, tail, found := strings.Cut(row, " ~ ")
			require.True(t, found)
			require.True(t, strings.HasPrefix(whole[i], head) && strings.HasSuffix(whole[i], tail), row)
			require.InDelta(t, len(head)-len("stage 10  "), len(tail), 1, row)
		}
	}
	assert.Equal(t, s.Picture(1e6), s.Picture(130), "what fits is whole")
	assert.Equal(t, "stage  0   ~ ", strings.Split(s.Picture(0), "\n")[0])
}
