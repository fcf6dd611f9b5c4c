package kron

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

// placedLeaves are of every kind, with MaxSizeDense 10 and BlockSize 4: 2 x 6 + 1 dense blocks.
var placedLeaves = []Leaf{
	{Path: "bias", Shape: []int{6}},
	{Path: "blocks", Shape: []int{2, 6, 10}, Scanned: true},
	{Path: "embedding", Shape: []int{12, 7}},
	{Path: "empty", Shape: []int{0, 7}},
	{Path: "head", Shape: []int{7, 11}},
	{Path: "huge", Shape: []int{11, 13}},
	{Path: "small", Shape: []int{3, 2}},
}

func placedPlan(t *testing.T, c Config) *Plan {
	c.MaxSizeDense, c.BlockSize, c.NoiseScale = 10, 4, 0.1
	p, err := NewPlan(placedLeaves, c)
	require.NoError(t, err)
	require.Equal(t, 13, p.DenseBlocks())
	return p
}

func gradients(p *Plan, n int64) map[string][]float64 {
	u := map[string][]float64{}
	for i, m := range p.Leaves {
		u[m.Path] = draws(1000*uint64(n)+uint64(i), m.Batch*m.Rows*m.Cols, 1)
	}
	return u
}

func tensorsByName(hosts []buffers.Host) map[string]buffers.Host {
	out := map[string]buffers.Host{}
	for _, h := range hosts {
		out[h.Path] = h
	}
	return out
}

// TestStagesHaveTheSameBits: leaves spread over stages, each with a stack of its own.
func TestStagesHaveTheSameBits(t *testing.T) {
	c := plain(Quad, 4)
	c.Rules = Stable()
	p := placedPlan(t, c)
	at := map[string]int{"bias": 0, "blocks": 2, "embedding": 0, "empty": 0, "head": 2, "huge": 1, "small": 0}
	whole, err := NewTwin(p, nil)
	require.NoError(t, err)
	var stages []*Twin
	for stage := range 3 {
		var paths []string
		for _, m := range p.Leaves {
			if at[m.Path] == stage {
				paths = append(paths, m.Path)
			}
		}
		twin, err := NewTwin(p, paths)
		require.NoError(t, err)
		stages = append(stages, twin)
	}
	for n := int64(1); n <= 3; n++ {
		want, got := gradients(p, n), gradients(p, n)
		require.NoError(t, whole.Update(n, want, n == 3, false))
		for _, stage := range stages {
			require.NoError(t, stage.Update(n, got, n == 3, false))
		}
		assert.Equal(t, want, got)
	}
	state := tensorsByName(whole.Tensors())
	assert.Equal(t, state["leaf/huge/Ql"], tensorsByName(stages[1].Tensors())["leaf/huge/Ql"])
	// Block 12, the last, belongs to "small", in a stack of its own of shape [1, 3, 3] instead of [13, 4, 4].
	small := tensorsByName(stages[0].Tensors())["dense/Ql"]
	assert.Equal(t, []int{1, 3, 3}, small.Shape)
	assert.Equal(t, []int{13, 4, 4}, state["dense/Ql"].Shape)
	padded := make([]float32, 16)
	for row := range 3 {
		copy(padded[4*row:], small.Data[3*row:][:3])
	}
	assert.Equal(t, padded, state["dense/Ql"].Data[12*16:])
}

func TestPartErrors(t *testing.T) {
	p := placedPlan(t, plain(Quad, 4))
	_, err := p.part([]string{"bias", "bias"})
	require.EqualError(t, err, `kron: part: leaf "bias": given twice`)
	_, err = p.part([]string{"wide"})
	require.EqualError(t, err, `kron: part: leaf "wide": not in the plan`)
	none, err := p.part([]string{})
	require.NoError(t, err)
	assert.Equal(t, part{}, none)
}
