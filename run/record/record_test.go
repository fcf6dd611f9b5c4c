package record

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

func TestSettingsInPieces(t *testing.T) {
	err := Write(io.Discard, []Setting{{Key: "a.x"}, {Key: "b"}, {Key: "a.y"}})
	assert.ErrorContains(t, err, `section "a" is not in one piece`)
	err = Write(io.Discard, []Setting{{Key: "a.x"}, {Key: "a.x"}})
	assert.ErrorContains(t, err, "given twice")
}

// FuzzSettings: whatever a run.yaml holds, comparing it with the settings of a run ends, and takes little.
func FuzzSettings(f *testing.F) {
	var text strings.Builder
	err := Write(&text, []Setting{{Key: "model.kind", Value: "gpt2", Origin: "run.yaml:3"}, {Key: "train.steps", Value: 80, Origin: "default"}})
	require.NoError(f, err)
	f.Add([]byte(text.String()))
	f.Add([]byte(laughs(7)))
	f.Add([]byte("a: &"))
	f.Add([]byte("a:\n  b: 1\n a: 2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		frugal.Parse(t, len(text), func() {
			r, err := Read(text)
			if err != nil {
				return
			}
			for _, value := range r.Values {
				require.True(t, json.Valid([]byte(value)), value)
			}
		})
	})
}

// laughs is a YAML text of so many lines, each of which has the line before ten times.
func laughs(lines int) string {
	text := "a0: &a0 [" + strings.Repeat("x, ", 9) + "x]\n"
	for i := 1; i < lines; i++ {
		again := fmt.Sprintf("*a%d", i-1)
		text += fmt.Sprintf("a%d: &a%d [%sx]\n", i, i, strings.Repeat(again+", ", 10))
	}
	return text
}

func TestNamesOfValuesAreRefused(t *testing.T) {
	for text, says := range map[string]string{laughs(2): "line 1: found an anchor", "a: 1\nb: *x\n": "line 2: found an alias"} {
		_, err := Read([]byte(text))
		assert.ErrorContains(t, err, says)
	}
}

// Who only tells of a record is not stopped by a step that is none; who goes on is told.
func TestDecisions(t *testing.T) {
	r, err := Read([]byte("# rescheduled at step 4: train.steps 5 -> 6\n# rescheduled at step 99999999999999999999: x\ntrain:\n  steps: 6 # --set\n"))
	require.NoError(t, err)
	require.Len(t, r.Decisions, 2)
	assert.Equal(t, Decision{Step: 4, Text: "rescheduled at step 4: train.steps 5 -> 6"}, r.Decisions[0])
	assert.Equal(t, "rescheduled at step 99999999999999999999: x", r.Decisions[1].Text)
	assert.ErrorContains(t, r.Decisions[1].Err, "value out of range")
	assert.Equal(t, map[string]string{"train.steps": "6"}, r.Values)
	assert.Equal(t, "# rescheduled at step 4: train.steps 5 -> 6\n# rescheduled at step 99999999999999999999: x\n", string(r.Head()))
}
