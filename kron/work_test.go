package kron

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

// Counts of single blocks, worked out by hand; docs say 10 and 12 b³ for full ones.
func TestWork(t *testing.T) {
	leaves := []Leaf{
		{Path: "bias", Shape: []int{128}},
		{Path: "block", Shape: []int{128, 128}},
		{Path: "four", Shape: []int{256, 256}},
		{Path: "frozen", Shape: []int{128, 128}, Frozen: true},
		{Path: "huge", Shape: []int{2000, 2000}},
		{Path: "ragged", Shape: []int{128, 64}},
		{Path: "tall", Shape: []int{2000, 128}},
		{Path: "wide", Shape: []int{128, 2000}},
	}
	for method, factor := range map[Method]float64{Quad: 2*128 + 28, Skew: 3*128 + 56} { // of a side of 128, by 128²
		c := plain(method, 128)
		c.MaxSizeDense = 1000
		p, err := NewPlan(leaves, c)
		require.NoError(t, err)
		work := map[string]float64{}
		for _, m := range p.Leaves {
			work[m.Path] = p.Work(m)
		}
		cube := 128.0 * 128 * 128
		block := 5*cube + 2*factor*128*128
		tall := 2.5*2000*128*128 + factor*128*128
		small := map[Method]float64{Quad: 2*64 + 28, Skew: 3*64 + 56}[method] * 64 * 64
		assert.Equal(t, map[string]float64{
			"bias": 0, "block": block, "four": 4 * block, "frozen": 0, "huge": 0, "ragged": 2.5*(cube/2+cube/4) + factor*128*128 + small, "tall": tall, "wide": tall,
		}, work, method)
		p.Config.DType = buffers.BF16
		block128, _ := p.Leaf("block")
		assert.Equal(t, block+cube, p.Work(block128), "two squares more, of which half is made")
		assert.InDelta(t, map[Method]float64{Quad: 10, Skew: 12}[method], work["block"]/cube, 0.6)
	}
}
