package train

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/rollout"
)

// counting is a model that continues n with n+1 and sees at most width tokens. It keeps what it has seen, window by window.
type counting struct {
	width   int
	windows [][]int32
	flat    bool // every token is as likely
}

func (c *counting) Window() int { return c.width }

func (c *counting) Logits(_ context.Context, window []int32) ([]float32, error) {
	c.windows = append(c.windows, slices.Clone(window))
	return c.logits(), nil
}

func (c *counting) Decode(_ context.Context, token int32) ([]float32, error) {
	newest := &c.windows[len(c.windows)-1]
	*newest = append(*newest, token)
	return c.logits(), nil
}

func (c *counting) logits() []float32 {
	out := make([]float32, 50)
	if newest := c.windows[len(c.windows)-1]; !c.flat {
		out[newest[len(newest)-1]+1] = 20
	}
	return out
}

func TestGenerateTokens(t *testing.T) {
	c := SampleConfig{Prompt: "x", Tokens: 10, Temperature: .1, Seed: 7}
	run := func(m *counting, prompt ...int32) (got []int32) {
		require.NoError(t, GenerateTokens(t.Context(), c, prompt, m, func(token int32) bool {
			got = append(got, token)
			return len(got) < 8
		}))
		return got
	}
	for _, test := range []struct {
		width   int
		prompt  []int32
		windows [][]int32
	}{
		{20, []int32{5, 6}, [][]int32{{5, 6, 7, 8, 9, 10, 11, 12, 13}}},
		{9, []int32{5, 6}, [][]int32{{5, 6, 7, 8, 9, 10, 11, 12, 13}}},
		{4, []int32{5, 6}, [][]int32{{5, 6, 7, 8}, {8, 9, 10, 11}, {11, 12, 13}}},
		{3, []int32{4, 5, 6}, [][]int32{{4, 5, 6}, {7, 8, 9}, {10, 11, 12}, {13}}},
		{1, []int32{4, 5, 6}, [][]int32{{6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}}},
	} {
		m := &counting{width: test.width}
		assert.Equal(t, []int32{7, 8, 9, 10, 11, 12, 13, 14}, run(m, test.prompt...), "ends when yield says so")
		assert.Equal(t, test.windows, m.windows)
	}
	wild := &counting{width: 3, flat: true}
	c.Temperature = 1
	first := run(wild, 5, 6)
	assert.Equal(t, first, run(wild, 5, 6))
	c.Seed = 8
	assert.NotEqual(t, first, run(wild, 5, 6))
	assert.ErrorContains(t, GenerateTokens(t.Context(), c, nil, wild, nil), "0 tokens")
	c.Stop = []int32{40, 9}
	assert.Equal(t, []int32{7, 8}, run(&counting{width: 20}, 5, 6), "ends with a token to stop at, which is not part of it")

	for prompt, begin := range map[string][]int32{"\x05\x06": nil, "what people see": {5, 6}} {
		c.Prompt, c.Begin = prompt, begin
		text := ""
		require.NoError(t, Continue(t.Context(), c, Bytes, &counting{width: 20}, func(more string) bool { text += more; return true }))
		assert.Equal(t, "\x07\x08", text, "after the tokens that a sample begins with, or those of its prompt")
	}
}

// The penalty is on every token of the prompt, also before the window, and of what was drawn: once each.
func TestRepetitionPenalty(t *testing.T) {
	said := rollout.NewSaid(2, []int32{0, 3, 0})
	said.Add(1, 900)
	logits := []float32{4, -4, 4, -1, -1}
	assert.Equal(t, []float32{2, -8, 4, -2, -1}, said.Penalized(logits))
	assert.Equal(t, []float32{4, -4, 4, -1, -1}, logits, "the model's own")

	c := SampleConfig{Prompt: "x", Tokens: 5, RepetitionPenalty: 1.5}
	var got []int32
	require.NoError(t, GenerateTokens(t.Context(), c, []int32{2, 1, 4}, &fixed{2, 1.9, 1.8, 1.7, 1.6, 1.5, .1, .1, .1}, func(token int32) bool {
		got = append(got, token)
		return true
	}))
	assert.Equal(t, []int32{0, 3, 5, 0, 0}, got)
}

// fixed is a model that always answers with the same logits and sees two tokens.
type fixed []float32

func (f fixed) Window() int { return 2 }

func (f fixed) Logits(context.Context, []int32) ([]float32, error) { return f, nil }

func (f fixed) Decode(context.Context, int32) ([]float32, error) { return f, nil }

func TestSampleConfig(t *testing.T) {
	good := SampleConfig{Prompt: "a", Tokens: 1}
	require.NoError(t, good.Validate())
	require.NoError(t, SampleConfig{Begin: []int32{1}, Tokens: 1}.Validate())
	for name, edit := range map[string]func(*SampleConfig){
		"prompt":      func(c *SampleConfig) { c.Prompt = "" },
		"tokens":      func(c *SampleConfig) { c.Tokens = 0 },
		"temperature": func(c *SampleConfig) { c.Temperature = math.NaN() },
		"top_k":       func(c *SampleConfig) { c.TopK = -1 },
		"top_p":       func(c *SampleConfig) { c.TopP = 1.5 },
		"min_p":       func(c *SampleConfig) { c.MinP = math.NaN() },

		"repetition_penalty": func(c *SampleConfig) { c.RepetitionPenalty = -1 },
	} {
		c := good
		edit(&c)
		assert.ErrorContains(t, c.Validate(), name)
	}
}
