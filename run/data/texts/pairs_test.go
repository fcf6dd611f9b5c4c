package texts

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/text/chat"
)

// pairsOf opens rows of pairs.
func pairsOf(t *testing.T, c Config, rows ...string) (*Corpus, error) {
	t.Helper()
	c.Dir = tree(t, map[string]string{"pairs.jsonl": strings.Join(rows, "\n")})
	c.JSONL, c.Format = []string{"pairs.jsonl"}, formats.Pairs
	corpus, err := Open(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	}
	return corpus, err
}

var fivePairs = []string{
	`{"prompt": [1, 2], "chosen": [3, 4], "rejected": [5]}`, `{"prompt": [10], "chosen": [11], "rejected": [12, 13, 14]}`,
	`{"prompt": [20, 21], "chosen": [22], "rejected": [23]}`, `{"prompt": [30], "chosen": [31], "rejected": [32], "more": "of a row"}`,
	`{"prompt": [40, 41], "chosen": [42, 43], "rejected": [44]}`,
}

// TestPairsStayTogether takes two epochs in batches of two pairs: the chosen completion stands before the rejected one of the same prompt, each pair comes once
// an epoch, and a loader that resumes hands out the same.
func TestPairsStayTogether(t *testing.T) {
	corpus, err := pairsOf(t, Config{Vocab: 64, Context: 4}, fivePairs...)
	require.NoError(t, err)
	assert.Contains(t, corpus.Notes[0], "pairs.jsonl: 5 pairs (tokens) of 30 tokens in 10 windows of 4", "and not documents, twice as many")
	config := data.LoaderConfig{Context: 4, Batch: 4, Seed: 3}
	loader, err := data.NewLoader(corpus.Train, config)
	require.NoError(t, err)
	defer loader.Close()
	var prompts []int32
	var third data.Batch
	for i := range 5 {
		b, err := loader.Next(t.Context())
		require.NoError(t, err)
		if i == 1 {
			config.State = b.State
		}
		if i == 2 {
			third = b
		}
		for row := 0; row < 4; row += 2 {
			assert.Equal(t, b.Tokens[4*row]/10, b.Tokens[4*row+4]/10, "one prompt")
			learned := func(row int) int32 {
				return b.Labels[4*row:][slices.IndexFunc(b.Labels[4*row:], func(l int32) bool { return l != data.Ignored })]
			}
			assert.Less(t, learned(row), learned(row+1), "chosen, then rejected")
			prompts = append(prompts, b.Tokens[4*row]/10)
		}
	}
	for epoch := range 2 {
		assert.ElementsMatch(t, []int32{0, 1, 2, 3, 4}, prompts[5*epoch:5*epoch+5])
	}
	resumed, err := data.NewLoader(corpus.Train, config)
	require.NoError(t, err)
	defer resumed.Close()
	b, err := resumed.Next(t.Context())
	require.NoError(t, err)
	assert.Equal(t, third, b)
}

// TestPairsApart keeps pairs whole in the validation split and in an evaluation that reads some of them.
func TestPairsApart(t *testing.T) {
	corpus, err := pairsOf(t, Config{Vocab: 64, Context: 4, Validation: 0.4}, fivePairs...)
	require.NoError(t, err)
	assert.Contains(t, corpus.Notes[0], "5 pairs (tokens)")
	assert.Contains(t, corpus.Notes[0], "0 cut, 2 held out", "two fifths")
	assert.Equal(t, "by pair", corpus.Split)
	for limit, want := range map[int][]int32{0: {20, 20, 40, 40}, 3: {20, 20}, 1: {20, 20}} {
		e, err := data.NewEvaluation(corpus.Validation, 4, 4, limit)
		require.NoError(t, err)
		require.EqualValues(t, len(want), e.Windows())
		b, err := e.Batch(0)
		require.NoError(t, err)
		for row, first := range want {
			assert.Equal(t, first, b.Tokens[4*row])
		}
	}
	e, err := data.NewEvaluation(corpus.Train, 4, 6, 4)
	require.NoError(t, err)
	b, err := e.Batch(0)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 1, 10, 10, 0, 0}, []int32{b.Tokens[0], b.Tokens[4], b.Tokens[8], b.Tokens[12], b.Tokens[16], b.Tokens[20]})
	assert.Equal(t, []int32{data.Ignored, 3, 4, data.Ignored, data.Ignored, 5, data.Ignored, data.Ignored}, b.Labels[:8])
}

// TestPairsOfText has text and messages, whose completions alone are labels.
func TestPairsOfText(t *testing.T) {
	ask, end := "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"
	const hi = `{"role": "user", "content": "Hi"}, `
	for name, c := range map[string]struct {
		row   string
		parts [2][2]string // of chosen and rejected: what is given, and what is learned
	}{
		"text": {`{"prompt": "1+1 =", "chosen": " two", "rejected": " eleven"}`, [2][2]string{{"1+1 =", " two<|endoftext|>"}, {"1+1 =", " eleven<|endoftext|>"}}},
		"messages": {
			`{"prompt": [{"role": "user", "content": "Hi"}], "chosen": [{"role": "assistant", "content": "Good day"}], "rejected": [{"role": "assistant", "content": "No"}]}`,
			[2][2]string{{ask, "Good day" + end}, {ask, "No" + end}},
		},
		"a prompt that both lists repeat": {
			`{"prompt": [{"role": "user", "content": "Hi"}], "chosen": [` + hi + `{"role": "assistant", "content": "Good day"}], "rejected": [` + hi + `{"role": "assistant", "content": "No"}]}`,
			[2][2]string{{ask, "Good day" + end}, {ask, "No" + end}},
		},
		"the text of a prompt, and scores": {
			`{"prompt": "Hi", "chosen": [` + hi + `{"role": "assistant", "content": "Good day"}], "rejected": [{"content": "Hi", "role": "user", "score": 2}, {"role": "assistant", "content": "No"}]}`,
			[2][2]string{{ask, "Good day" + end}, {ask, "No" + end}},
		},
		"no prompt": {
			`{"chosen": [` + hi + `{"role": "assistant", "content": "Good day"}], "rejected": [` + hi + `{"role": "assistant", "content": "No"}], "messages": []}`,
			[2][2]string{{ask, "Good day" + end}, {ask, "No" + end}},
		},
		"a text before answers, and the system": {
			`{"system": "S", "prompt": "Hi", "chosen": [{"from": "gpt", "value": "Good day"}], "rejected": {"role": "assistant", "content": "No"}}`,
			[2][2]string{{"<|im_start|>system\nS" + end + "\n" + ask, "Good day" + end}, {"<|im_start|>system\nS" + end + "\n" + ask, "No" + end}},
		},
	} {
		config := chatting(t, chat.Options{})
		corpus, err := pairsOf(t, config, c.row)
		require.NoError(t, err, name)
		e, err := data.NewEvaluation(corpus.Train, 64, 2, 0)
		require.NoError(t, err)
		b, err := e.Batch(0)
		require.NoError(t, err)
		for side, parts := range c.parts {
			var learned []int32
			for i, label := range b.Labels[64*side : 64*side+64] {
				if label != data.Ignored {
					if learned == nil {
						given, err := config.Tokenizer.Decode(b.Tokens[64*side:64*side+i+1], false)
						require.NoError(t, err)
						assert.Equal(t, parts[0], string(given), name)
					}
					learned = append(learned, label)
				}
			}
			got, err := config.Tokenizer.Decode(learned, false)
			require.NoError(t, err)
			assert.Equal(t, parts[1], string(got), name)
		}
	}
}

func TestPairsRefused(t *testing.T) {
	for want, row := range map[string]string{
		`line 2: found fields ["chosen" "prompt"], wanted ["prompt" "chosen" "rejected"]`:                                `{"prompt": [1], "chosen": [2]}`,
		"line 2: rejected: found no token to be learned":                                                                 `{"prompt": [1], "chosen": [2], "rejected": []}`,
		"line 2: chosen: found no token to be learned":                                                                   `{"prompt": [], "chosen": [2], "rejected": [1]}`,
		"row 2: rejected: found 6 tokens with the prompt, wanted at most 5, a window (model.context) and one token more": `{"prompt": [1], "chosen": [2], "rejected": [1, 2, 3, 4, 5]}`,
		`line 2: chosen: field "completion": `:                                                                           `{"prompt": [1], "chosen": [900], "rejected": [1]}`,
	} {
		_, err := pairsOf(t, Config{Vocab: 64, Context: 4}, fivePairs[0], row)
		require.ErrorContains(t, err, want)
	}
	const ask, answer, other = `{"role": "user", "content": "Hi"}`, `{"role": "assistant", "content": "A"}`, `{"role": "assistant", "content": "B"}`
	for want, row := range map[string]string{
		`prompt: found the text "Ho", which is none of the messages that both chosen and rejected begin with`: `{"prompt": "Ho", "chosen": [` + ask + `,` + answer + `], "rejected": [` + ask + `,` + other + `]}`,
		"prompt: found none, and chosen and rejected begin with no message that both have":                    `{"chosen": [` + answer + `], "rejected": [` + other + `]}`,
		"chosen, rejected: found 2 and 2 messages, of which the first 2 are the prompt":                       `{"chosen": [` + ask + `,` + answer + `], "rejected": [` + ask + `,` + answer + `]}`,
		"chosen: chat: row: system: found \"S\": no template writes it beside texts":                          `{"prompt": "a", "chosen": "b", "rejected": "c", "system": "S"}`,
	} {
		_, err := pairsOf(t, chatting(t, chat.Options{}), row)
		require.ErrorContains(t, err, want)
	}
}

// TestPairsPacked lays whole pairs into windows, each completion without the token that is a label alone, with numbers beside each place of a window.
func TestPairsPacked(t *testing.T) {
	corpus, err := pairsOf(t, Config{Vocab: 64, Context: 10, PerWindow: 4}, fivePairs...)
	require.NoError(t, err)
	assert.Contains(t, corpus.Notes[0], "5 pairs (tokens) of 30 tokens in 3 windows of 10")
	numbers := make([]float32, 3*4)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	source, err := corpus.Train.(data.Labelled).With(10, "beside", numbers)
	require.NoError(t, err)
	e, err := data.NewEvaluation(source, 10, 3, 0)
	require.NoError(t, err)
	b, err := e.Batch(0)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 2, 3, 1, 2, 10, 10, 12, 13, 0}, b.Tokens[:10])
	x := int32(data.Ignored)
	assert.Equal(t, []int32{x, 3, 4, x, 5, 11, 12, 13, 14, x}, b.Labels[:10])
	assert.Equal(t, []int32{0, 1, 2, 0, 1, 0, 0, 1, 2, 0}, b.Positions[:10])
	assert.Equal(t, []int32{20, 21, 20, 21, 30, 30, 0, 0, 0, 0}, b.Tokens[10:20], "two pairs are all that a window has places for")
	assert.Equal(t, []int32{40, 41, 42, 40, 41, 0, 0, 0, 0, 0}, b.Tokens[20:30])
	assert.Equal(t, numbers, b.Beside["beside"])

	labelled, err := labelledOf(t, Config{Vocab: 64, Context: 6, PerWindow: 4}, `{"prompt": [1], "completion": [2, 3], "label": true}`,
		`{"prompt": [4], "completion": [5, 6, 7, 8], "label": true}`, `{"prompt": [9], "completion": [10], "label": false}`, `{"prompt": [11], "completion": [12], "label": true}`)
	require.NoError(t, err)
	e, err = data.NewEvaluation(labelled.Train, 6, 2, 0)
	require.NoError(t, err)
	b, err = e.Batch(0)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 2, 4, 5, 6, 7, 9, 11, 0, 0, 0, 0}, b.Tokens)
	assert.Equal(t, []float32{1, 1, 0, 0, 0, 1, 0, 0}, b.Beside["good"])

	_, err = pairsOf(t, Config{Vocab: 64, Context: 8, PerWindow: 4}, fivePairs[0], `{"prompt": [1, 2, 3], "chosen": [4, 5, 6], "rejected": [7]}`, `{"prompt": [1, 2, 3], "chosen": [4, 5, 6], "rejected": [7, 8]}`)
	require.ErrorContains(t, err, "row 3: found 11 tokens in chosen and rejected, with the prompt before each, wanted at most 10: packed, they share a window (model.context)")
}
