package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
)

// The plan has what a network takes to read its parameters in few bits, in training, evaluation and sampling.
func TestPlanOfQuantizedParameters(t *testing.T) {
	dev := gputest.Device(t)
	c := plannedConfig(t)
	without, err := Plan(t.Context(), jobOf(t, c), dev.Limits())
	require.NoError(t, err)
	c.Definition, err = model.WithQuantization(c.Definition, model.Quantization{Mode: "nvfp4", Match: []string{"weight"}})
	require.NoError(t, err)
	plan, err := Plan(t.Context(), jobOf(t, c), dev.Limits())
	require.NoError(t, err)
	before := dev.Counters().LiveBytes
	s := create(t, dev, c)
	defer s.Release()
	_, err = s.Params().Read(t.Context(), "wte.weight") // the transfer buffer
	require.NoError(t, err)
	assert.InEpsilon(t, dev.Counters().LiveBytes-before, plan.Total(), 0.05)
	matrices := uint64(0)
	for _, p := range c.Definition.Params() {
		if len(p.Shape) == 2 {
			matrices += 4 * uint64(p.Shape[0]*p.Shape[1])
		}
	}
	assert.Greater(t, plan.Step, without.Step, "the tied head's, which the whole step needs")
	assert.Less(t, plan.Step, without.Step+matrices*11/10, "one copy of each")
	assert.Equal(t, without.Params, plan.Params)
	assert.Equal(t, without.Optimizer, plan.Optimizer)
}
