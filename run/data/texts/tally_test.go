package texts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
)

// What became of documents is counted: by hand, of five in windows of four tokens.
func TestTally(t *testing.T) {
	text := `{"input_ids": [1,2,3,4,5,6], "m": [0,0,1,1,1,1]}
{"input_ids": [1,2,3], "m": [0,0,1]}
{"input_ids": [1,2], "m": [1,0]}
{"input_ids": [9], "m": [1]}
{"input_ids": [1,2,3,4,5], "m": [0,0,0,0,1]}
`
	for _, c := range []struct {
		layout data.Layout
		want   Tally
		line   string
	}{
		// The first is 4 and 2 tokens with labels 3, 4, 5 and 6, the last 4 with the label 5: its fifth token is no input.
		{
			data.Layout{},
			Tally{Forms: []string{"tokens"}, Documents: 5, Tokens: 17, Longest: 6, Divided: 1, Unlearned: 2, Windows: 4, Room: 16, Filled: 13, Learned: 6},
			"a.jsonl: 5 documents (tokens) of 17 tokens in 4 windows of 4, 81 % full, 35 % of the tokens learned, longest 6, 0 cut, 1 in several windows, " +
				"2 have no label that counts and are left out",
		},
		{
			data.Layout{Long: data.LongKeepStart},
			Tally{Forms: []string{"tokens"}, Documents: 5, Tokens: 17, Longest: 6, Cut: 1, Unlearned: 2, Windows: 3, Room: 12, Filled: 11, Learned: 5},
			"a.jsonl: 5 documents (tokens) of 17 tokens in 3 windows of 4, 92 % full, 29 % of the tokens learned, longest 6, 1 cut, 2 have no label that counts and are left out",
		},
	} {
		corpus, err := lines(t, Config{Context: 4, Vocab: 10, Fields: data.Fields{Mask: "m"}, Layout: c.layout}, text)
		require.NoError(t, err)
		require.Len(t, corpus.Tallies, 1)
		got := corpus.Tallies[0]
		assert.Contains(t, got.Source, "a.jsonl")
		assert.Contains(t, corpus.Notes[0], c.line)
		got.Source = ""
		assert.Equal(t, c.want, got)
	}
}
