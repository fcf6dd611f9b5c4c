package tokenizer

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Vocabulary and merges are those of Hugging Face's trainer.
func TestTrainingCases(t *testing.T) {
	for _, name := range []string{"gpt2", "llama3"} {
		raw, err := os.ReadFile("testdata/train/" + name + ".json")
		require.NoError(t, err)
		var c struct {
			Pattern      string   `json:"pattern"`
			VocabSize    int      `json:"vocab_size"`
			MinFrequency int64    `json:"min_frequency"`
			Special      []string `json:"special_tokens"`
			Vocab        []string `json:"vocab"`
			Merges       []string `json:"merges"`
		}
		require.NoError(t, json.Unmarshal(raw, &c))
		corpus, err := os.Open("testdata/train/corpus.txt")
		require.NoError(t, err)
		defer corpus.Close()
		got, err := Train(context.Background(), []io.Reader{corpus}, TrainConfig{VocabSize: c.VocabSize, Pattern: c.Pattern, Special: c.Special, MinFrequency: c.MinFrequency})
		require.NoError(t, err)
		assert.Equal(t, c.Vocab, got.Tokens)
		var merges []string
		for _, pair := range got.Merges {
			merges = append(merges, got.Tokens[pair[0]]+" "+got.Tokens[pair[1]])
		}
		assert.Equal(t, c.Merges, merges)

		file, err := got.JSON()
		require.NoError(t, err)
		tok, err := parseJSON(file, &settings{})
		require.NoError(t, err)
		text, err := os.ReadFile("testdata/train/corpus.txt")
		require.NoError(t, err)
		ids, err := tok.Encode(string(text)+strings.Join(c.Special, ""), Options{})
		require.NoError(t, err)
		back, err := tok.Decode(ids, true)
		require.NoError(t, err)
		assert.Equal(t, string(text), back)
	}
}
