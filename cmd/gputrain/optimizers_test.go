package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/optim"
)

// Bytes of state a parameter, as their definitions have them: of a 1024x1024 matrix and of a vector.
func TestStatesOf(t *testing.T) {
	for name, want := range map[string][2]float64{
		"adamw": {8, 8}, "sgd": {0, 0}, "lion": {4, 4}, "rmsprop": {4, 4}, "mars": {12, 12},
		"adafactor": {2 * 4 * 1024. / (1 << 20), 4}, // a row and a column; a vector is not factored
	} {
		if !slices.Contains(optim.Names(), name) {
			continue
		}
		states, err := statesOf(name)
		require.NoError(t, err)
		require.Len(t, states, 3)
		assert.InDelta(t, want[0], states[0].Saved, 1e-9, name)
		assert.InDelta(t, want[1], states[1].Saved, 1e-9, name)
		for _, s := range states {
			assert.GreaterOrEqual(t, s.Device, s.Saved, "%s of %s", name, s.Of)
			assert.Less(t, s.Device, s.Saved+10, "%s of %s: a tree of updates and tables", name, s.Of)
		}
	}
}
