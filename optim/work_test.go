package optim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
)

// Work is what the cost of an optimizer says for the matrices that it is counted for, and one an element where it multiplies none.
func TestWorkOfLeaves(t *testing.T) {
	const side, block = 768, 128
	model := []buffers.Spec{
		{Path: "h.0.weight", Shape: []int{side, side}},
		{Path: "bias", Shape: []int{side}},
		{Path: "wte.weight", Shape: []int{1000, side}},
		{Path: "frozen", Shape: []int{side, side}},
	}
	of := func(name string) (map[string]float64, Cost) {
		tx, err := Config{Name: name}.Build()
		require.NoError(t, err)
		work, err := Freeze(model[3:], tx).Work(model)
		require.NoError(t, err)
		return work, tx.Cost()
	}
	work, _ := of("adamw")
	assert.Equal(t, map[string]float64{"h.0.weight": side * side, "bias": side, "wte.weight": 1000 * side}, work)
	work, cost := of("muon")
	assert.InEpsilon(t, cost.FLOPs/2, work["h.0.weight"]/side/side, 0.01)
	assert.InDelta(t, 1000*side, work["wte.weight"], 0, "AdamW's")
	work, _ = of("quad")
	assert.InEpsilon(t, 10*block, work["h.0.weight"]/side/side, 0.06)
	assert.InDelta(t, side, work["bias"], 0)
}
