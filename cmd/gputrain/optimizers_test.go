package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/lab/bench"
	"gputrain/optim"
)

// The cost of every optimizer holds for all shapes, or for those that are named.
func TestCostsSayWhatTheyAreOf(t *testing.T) {
	for _, name := range optim.Names() {
		d, err := optim.Describe(name)
		require.NoError(t, err)
		assert.Positive(t, d.Cost.TrafficBytes, name)
		if !bench.MemoryBound(d) {
			o, err := optim.Find(name)
			require.NoError(t, err)
			assert.NotEmpty(t, o.CountedFor, name)
		}
	}
}

// The table has every optimizer, and keeps to the width of a page.
func TestTableOfOptimizers(t *testing.T) {
	all, err := optimizerLines(optim.Names())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, writeOptimizers(&out, all))
	assertPage(t, out.String())
	for _, name := range optim.Names() {
		assert.Regexp(t, "(?m)^"+name+" +[0-9]", out.String())
	}
}

// assertPage wants no line of a text to be wider than a page.
func assertPage(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), pageWidth, line)
	}
}

// Bytes of state a parameter, as their definitions have them: of a 1024x1024 matrix and of a vector.
func TestStatesOf(t *testing.T) {
	for name, want := range map[string][2]float64{
		"adamw": {8, 8}, "sgd": {0, 0}, "lion": {4, 4}, "rmsprop": {4, 4}, "mars": {12, 12},
		"adafactor": {2 * 4 * 1024. / (1 << 20), 4}, // a row and a column; a vector is not factored
		"muon":      {4, 8},                         // a vector is AdamW's
		"quad":      {12, 8}, "skew": {12, 8},       // a momentum, and two factors as large as their block or one diagonal
		"soap": {24, 8}, // two moments, and two covariances with their bases
	} {
		states, err := statesOf(name, nil)
		require.NoError(t, err)
		require.Len(t, states, 3)
		// Estimates and sizes of blocks are a few bytes a block.
		assert.InDelta(t, want[0], states[0].Saved, 0.002, name)
		assert.InDelta(t, want[1], states[1].Saved, 0.002, name)
		for _, s := range states {
			assert.GreaterOrEqual(t, s.Device, s.Saved, "%s of %s", name, s.Of)
			// A tree of updates, sums and tables; for factors their squares and what a refresh needs in between.
			assert.Less(t, s.Device, s.Saved+50, "%s of %s", name, s.Of)
		}
	}
}
