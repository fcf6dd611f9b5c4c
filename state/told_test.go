package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/model"
)

// Progress tells how much has been read of what is large and yet to be read, a mebibyte at a time, once each.
func TestTold(t *testing.T) {
	var seen [][2]int
	c := Config{Progress: func(_ string, done, total int) { seen = append(seen, [2]int{done, total}) }}
	read := func([]float32, int) error { return nil }
	params := []buffers.Host{{Path: "a", Shape: []int{768, 1024}, Read: read}, {Path: "b", Shape: []int{1}, Data: []float32{1}}}
	assert.Equal(t, params[1:], Job{c}.told(params[1:], 1), "in memory")
	dst := make([]float32, 1<<16)
	for _, from := range []int{3<<20 + 1, 3 << 20} {
		for i := range 16 {
			require.NoError(t, Job{c}.told(params, from)[0].Copy(dst, i<<16))
		}
	}
	assert.Empty(t, seen, "each began anew")
	of := Job{c}.told(params, 3<<20)
	for i := range 16 { // some of it twice, as stages that share it do
		require.NoError(t, of[0].Copy(dst, i<<16%(12<<16)))
	}
	assert.Equal(t, [][2]int{{1, 3}, {2, 3}, {3, 3}}, seen)
}

// What is drawn is not said to be loaded.
func TestToldOfWhatIsDrawn(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 1, Width: 64, Vocab: 8192, Context: 8})
	require.NoError(t, err)
	said := map[string]bool{}
	c := Config{Definition: def, Progress: func(phase string, _, _ int) { said[phase] = true }}
	for _, h := range (Job{c}).told(nil, 1<<20) {
		require.NoError(t, h.Copy(make([]float32, h.Elements()), 0))
	}
	assert.Equal(t, map[string]bool{"draw parameters, MiB": true}, said)
}
