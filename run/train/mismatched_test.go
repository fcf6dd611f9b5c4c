package train

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data/texts"
)

// TestMismatchedRowsFit refuses rows that do not fit together before the run begins, and a model that is trained whole.
func TestMismatchedRowsFit(t *testing.T) {
	dev, base := gputest.Device(t), filepath.Join(t.TempDir(), "base")
	kto := model.Objective{Loss: "kto", Numbers: map[string]float64{"beta": 0.5, "desirable_weight": 1, "undesirable_weight": 1}}
	exportDrawn(t, base, tinyRun(t, "").State.Definition)
	alone := pairsRun(t, kto, "")
	alone.State.Definition = model.Student(alone.State.Definition)
	_, err := Run(t.Context(), dev, alone)
	require.ErrorContains(t, err, "found kto of a network without a reference")
	long := func(n int) string { return "[7" + strings.Repeat(", 7", n-1) + "]" }
	for _, row := range []struct {
		lengths [][2]int // of prompts and completions, with 17 in all at most
		wanted  string
	}{
		{[][2]int{{2, 3}, {10, 7}, {3, 4}}, ""},
		{[][2]int{{2, 3}, {10, 7}, {9, 8}}, "training rows: found a prompt of 10 tokens (row 2) and a completion of 8 (row 3)"},
		{[][2]int{{2, 3}, {11, 6}, {3, 5}, {8, 7}}, "found a prompt of 11 tokens (row 2) and a completion of 7 (row 4)"},
	} {
		c, text := pairsRun(t, kto, base), ""
		for i, of := range row.lengths {
			text += fmt.Sprintf("{\"prompt\": %s, \"completion\": %s, \"label\": %d}\n", long(of[0]), long(of[1]), i%2)
		}
		file := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
		corpus, err := texts.Open(t.Context(), texts.Config{JSONL: []string{file}, Format: formats.Labelled, Vocab: 256, Context: 16})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
		c.Train, c.Validation = corpus.Train, nil
		learned, err := c.checkMismatched()
		assert.Equal(t, "", c.uneven(Labelled{Good: 4, Bad: 3}))
		assert.Contains(t, c.uneven(Labelled{Good: 30, Bad: 10}), "warning: kto: 30 good rows of weight 1 are 3 times 10 bad ones of weight 1, wanted 1 to 1.33 times")
		if row.wanted == "" {
			assert.Equal(t, []int{1, 2, 13}, []int{learned.Good, learned.Bad, learned.Together()})
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, row.wanted)
		}
	}
}
