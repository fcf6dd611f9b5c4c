package runfile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that embeds the loop leaves out what has no zero, and gets what a run file without the key has.
func TestZerosThatKeysDoNotTake(t *testing.T) {
	kept := Default().Train.Loop
	l := Filled(Loop{Keep: 7, SampleEvery: 0, Spikes: Spikes{Patience: 2}})
	assert.Equal(t, []any{kept.Steps, 7, kept.KeepBest, kept.LogEvery, kept.NaNPatience}, []any{l.Steps, l.Keep, l.KeepBest, l.LogEvery, l.NaNPatience})
	assert.Equal(t, Spikes{Window: kept.Spikes.Window, Patience: 2}, l.Spikes)
	assert.Equal(t, Sample{RepetitionPenalty: kept.Sample.RepetitionPenalty}, l.Sample, "none are drawn")
	assert.Zero(t, l.EvalEvery, "none")
	assert.False(t, l.SaveAsync)
	require.NoError(t, l.Validate())
	for says, breaks := range map[string]func(l *Loop){
		"train.keep: found -1, wanted 1 or more":                                    func(l *Loop) { l.Keep = -1 },
		"train.spike_window: found 1, wanted 2 to 1048576":                          func(l *Loop) { l.Spikes.Window = 1 },
		`train.save_interval: found "soon", wanted a time such as`:                  func(l *Loop) { l.SaveInterval = "soon" },
		"train.save_every: found [{every: 5}, {every: 6}], wanted an until in each": func(l *Loop) { l.SaveEvery = Intervals{{5, 0}, {6, 0}} },
	} {
		broken := l
		breaks(&broken)
		assert.ErrorContains(t, Filled(broken).Validate(), says)
	}
}
