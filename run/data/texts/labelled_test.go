package texts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/text/chat"
)

func labelledOf(t *testing.T, c Config, rows ...string) (*Corpus, error) {
	t.Helper()
	c.Dir = tree(t, map[string]string{"rows.jsonl": strings.Join(rows, "\n")})
	c.JSONL, c.Format = []string{"rows.jsonl"}, formats.Labelled
	corpus, err := Open(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	}
	return corpus, err
}

// TestLabelledRows has a window for each row, with its label beside it in every order, in a share for validation, and from a token file that is there.
func TestLabelledRows(t *testing.T) {
	rows := []string{
		`{"prompt": [10, 2], "completion": [3, 4], "label": true}`, `{"prompt": [20], "completion": [11], "label": false}`,
		`{"prompt": [30, 2, 1], "completion": [22], "label": 1}`, `{"prompt": [40], "completion": [31, 32, 33], "label": 0, "more": "of a row"}`,
		`{"prompt": [50], "completion": [5], "kto_tag": true}`,
	}
	good := map[int32]float32{10: 1, 20: 0, 30: 1, 40: 0, 50: 1}
	c := Config{Vocab: 64, Context: 4, Validation: 0.4, Cache: t.TempDir()}
	for range 2 {
		corpus, err := labelledOf(t, c, rows...)
		require.NoError(t, err)
		assert.Contains(t, corpus.Notes[0], "5 rows (tokens)")
		assert.Contains(t, corpus.Notes[0], "0 cut, 2 held out")
		seen := map[int32]int{}
		take := func(b data.Batch) {
			for row := range b.Rows {
				first := b.Tokens[4*row]
				if first == 0 {
					continue // nothing is left
				}
				assert.Equal(t, good[first], b.Beside[model.InputGood][row], "prompt of %d", first)
				seen[first]++
			}
		}
		loader, err := data.NewLoader(corpus.Train, data.LoaderConfig{Context: 4, Batch: 3, Seed: 3})
		require.NoError(t, err)
		defer loader.Close()
		for range 2 {
			b, err := loader.Next(t.Context())
			require.NoError(t, err)
			take(b)
		}
		e, err := data.NewEvaluation(corpus.Validation, 4, 3, 0)
		require.NoError(t, err)
		b, err := e.Batch(0)
		require.NoError(t, err)
		assert.Equal(t, []int32{data.Ignored, data.Ignored, data.Ignored, data.Ignored}, b.Labels[8:], "a row that is padding")
		take(b)
		assert.Equal(t, map[int32]int{10: 2, 20: 2, 30: 1, 40: 2, 50: 1}, seen)
	}
	corpus, err := labelledOf(t, Config{Vocab: 64, Context: 4}, rows[0])
	require.NoError(t, err)
	other, err := labelledOf(t, Config{Vocab: 64, Context: 4}, strings.Replace(rows[0], "true", "false", 1))
	require.NoError(t, err)
	assert.NotEqual(t, corpus.Fingerprint, other.Fingerprint, "another label")
}

func TestLabelledRowsRefused(t *testing.T) {
	for want, row := range map[string]string{
		`line 2: found fields ["completion" "prompt"], wanted ["prompt" "completion" "label"]`: `{"prompt": [1], "completion": [2]}`,
		`line 2: label: found "yes", wanted true (good), false, 1 or 0`:                        `{"prompt": [1], "completion": [2], "label": "yes"}`,
		"line 2: label: found 2, wanted true":                                                  `{"prompt": [1], "completion": [2], "label": 2}`,
		"line 2: completion: found no token to be learned after a prompt":                      `{"prompt": [1], "completion": [], "label": 1}`,
		"found no token to be learned after a prompt, wanted a prompt":                         `{"prompt": [], "completion": [1, 2], "label": 1}`,
		"row 2: completion: found 6 tokens with the prompt, wanted at most 5":                  `{"prompt": [1, 2, 3], "completion": [4, 5, 6], "label": 1}`,
	} {
		_, err := labelledOf(t, Config{Vocab: 64, Context: 4}, `{"prompt": [1], "completion": [2], "label": 1}`, row)
		require.ErrorContains(t, err, want)
	}
}

// TestLabelledText has text and messages.
func TestLabelledText(t *testing.T) {
	for row, label := range map[string]float32{
		`{"prompt": "1+1 =", "completion": " two", "label": true}`:  1,
		`{"prompt": "1+1 =", "completion": " two", "label": false}`: 0,
	} {
		corpus, err := labelledOf(t, Config{Vocab: 300, Context: 32}, row)
		require.NoError(t, err)
		e, err := data.NewEvaluation(corpus.Train, 32, 1, 0)
		require.NoError(t, err)
		b, err := e.Batch(0)
		require.NoError(t, err)
		assert.Equal(t, label, b.Beside[model.InputGood][0])
		assert.Equal(t, []int32{'1', '+', '1', ' ', '=', ' ', 't', 'w', 'o'}, b.Tokens[:9])
		assert.Equal(t, []int32{data.Ignored, data.Ignored, data.Ignored, data.Ignored, ' ', 't', 'w', 'o'}, b.Labels[:8])
	}
	config := chatting(t, chat.Options{})
	config.Context = 64
	for label, want := range map[string]float32{"true": 1, "0": 0} {
		corpus, err := labelledOf(t, config, `{"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": "No"}], "label": `+label+`}`)
		require.NoError(t, err)
		e, err := data.NewEvaluation(corpus.Train, 64, 1, 0)
		require.NoError(t, err)
		b, err := e.Batch(0)
		require.NoError(t, err)
		assert.Equal(t, want, b.Beside[model.InputGood][0])
		assert.Less(t, 1, data.Counted(b.Labels))
	}
}
