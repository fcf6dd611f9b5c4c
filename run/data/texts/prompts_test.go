package texts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/text/chat"
)

// TestPrompts: a prompt is text, messages or tokens, each without anything behind it, and the other columns stay with it.
func TestPrompts(t *testing.T) {
	for name, c := range map[string]struct {
		row, text string
		tokens    []int32
		form      string
	}{
		"text":               {`{"prompt": "1+1 =", "answer": "2"}`, "1+1 =", nil, "text"},
		"messages":           {`{"prompt": [{"role": "user", "content": "Hi there"}], "answer": "2"}`, "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n", nil, "messages"},
		"a system's message": {`{"system": "Be", "prompt": [{"role": "user", "content": "Hi there"}], "answer": "2"}`, "<|im_start|>system\nBe<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n", nil, "messages"},
		"tokens":             {`{"prompt": [3, 4, 5], "answer": "2"}`, "", []int32{3, 4, 5}, "tokens"},
	} {
		config := chatting(t, chat.Options{})
		config.Format = formats.Prompts
		corpus, err := lines(t, config, c.row)
		require.NoError(t, err, name)
		prompts := corpus.Train.(*data.Prompts)
		require.Equal(t, 1, prompts.Len(), name)
		want := c.tokens
		if want == nil {
			want = encoded(t, config.Tokenizer, c.text)
		}
		assert.Equal(t, want, prompts.At(0).Tokens, name)
		assert.Equal(t, "2", prompts.At(0).Columns["answer"], name)
		shown, err := corpus.Show(3, 8)
		require.NoError(t, err, name)
		assert.Equal(t, []Shown{{Source: corpus.Name, Number: 1, Tokens: want, Learned: make([]bool, len(want))}}, shown, name)
		assert.Equal(t, []string{c.form}, corpus.Tallies[0].Forms, name)
		assert.Equal(t, config.Tokenizer.VocabSize(), prompts.Vocab(), name)
	}
}

// TestPromptsAreParted: as documents are, and each epoch has each once, in an order of its own.
func TestPromptsAreParted(t *testing.T) {
	var rows []string
	for range 10 {
		rows = append(rows, `{"prompt": "ab"}`)
	}
	config := Config{Format: formats.Prompts, Context: 8, Validation: 0.2}
	corpus, err := lines(t, config, strings.Join(rows, "\n"))
	require.NoError(t, err)
	train, held := corpus.Train.(*data.Prompts), corpus.Validation.(*data.Prompts)
	assert.Equal(t, "by prompt", corpus.Split)
	require.Equal(t, 8, train.Len())
	assert.EqualValues(t, 4, held.At(0).Row)
	assert.EqualValues(t, 9, held.At(1).Row)
	at, orders := data.State{}, [][]int64{}
	for range 2 {
		var some []data.Prompt
		some, at = train.Next(at, 8, 3)
		var order []int64
		for _, p := range some {
			order = append(order, p.Row)
		}
		orders = append(orders, order)
	}
	assert.Equal(t, data.State{Epoch: 2}, at)
	assert.ElementsMatch(t, orders[0], orders[1])
	assert.NotEqual(t, orders[0], orders[1])
	some, next := train.Next(data.State{Epoch: 0, Position: 6}, 4, 3)
	assert.Equal(t, data.State{Epoch: 1, Position: 2}, next)
	assert.Equal(t, []int64{orders[0][6], orders[0][7], orders[1][0], orders[1][1]}, []int64{some[0].Row, some[1].Row, some[2].Row, some[3].Row})
	assert.InDelta(t, 1.25, train.Epochs(next), 1e-12)
	steps, err := data.Steps(train, 8, 3, 1, 2)
	require.NoError(t, err)
	assert.EqualValues(t, 6, steps, "sixteen prompts, three a time")
	changed, err := lines(t, config, strings.Join(append(rows[1:], `{"prompt": "ac"}`), "\n"))
	require.NoError(t, err)
	assert.NotEqual(t, corpus.Fingerprint, changed.Fingerprint)
}

func TestBadPrompts(t *testing.T) {
	for want, row := range map[string]string{
		`line 2: found fields ["answer"], wanted ["prompt"]`:                `{"answer": "2"}`,
		`line 2: found fields ["prompt"], wanted ["prompt"]`:                `{"prompt": null}`,
		"line 2: prompt: found no token, wanted at least one":               `{"prompt": ""}`,
		"line 2: prompt: token 1: is 999, want less than the vocabulary":    `{"prompt": [1, 999]}`,
		"line 2: prompt: found messages, wanted a tokenizer for them":       `{"prompt": [{"role": "user", "content": "a"}]}`,
		"line 2: prompt: found 3, wanted text or a list of tokens":          `{"prompt": 3}`,
		"found 2 keys, 1 of them different":                                 `{"prompt": "a", "prompt": "b"}`,
		"validation 0.9 of 1 prompts leaves 1 for training and 0 for valid": "",
	} {
		_, err := lines(t, Config{Format: formats.Prompts, Context: 8, Validation: map[bool]float64{true: 0.9}[row == ""]}, `{"prompt": "a"}`+"\n"+row)
		assert.ErrorContains(t, err, want)
	}
}
