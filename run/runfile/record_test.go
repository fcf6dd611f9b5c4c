package runfile

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

func TestReadRecord(t *testing.T) {
	text := "# Every value in force\nmodel:\n  kind: \"gpt2 # not a remark\"   # run.yaml:3\n  deep:\n    x: [1,2]  # --set\n    y: {\"a\":null}\ndata:\n  text: null    # default\nseed: 3\n"
	got, err := ReadRecord([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, []Recorded{
		{"model.kind", json.RawMessage(`"gpt2 # not a remark"`), "run.yaml:3"},
		{"model.deep.x", json.RawMessage(`[1,2]`), "--set"},
		{"model.deep.y", json.RawMessage(`{"a":null}`), ""},
		{"data.text", json.RawMessage("null"), "default"},
		{"seed", json.RawMessage("3"), ""},
	}, got)
	for _, bad := range []string{"a: b: c\n", "words\n", "a: &x 1\n"} {
		_, err := ReadRecord([]byte(bad))
		assert.Error(t, err, bad)
	}
}

// FuzzReadRecord: whatever stands in run.yaml, reading it ends; what is read are keys with values in JSON.
func FuzzReadRecord(f *testing.F) {
	f.Add([]byte("# Every value in force\nmodel:\n  kind: \"gpt2 # no remark\"   # run.yaml:3\n  deep:\n    x: [1,2]  # --set\nseed: 3\n"))
	f.Add([]byte("a:\n      b: 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		frugal.Parse(t, len(text), func() {
			found, err := ReadRecord(text)
			if err != nil {
				return
			}
			for _, s := range found {
				require.True(t, json.Valid(s.Value), "%s: %s", s.Key, s.Value)
			}
		})
	})
}
