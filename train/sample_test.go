package train

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Log(5)), 0}
	draw := func(temperature float64, topK int, u float32) int32 {
		token, err := choose(logits, temperature, topK, u)
		require.NoError(t, err)
		return token
	}
	assert.EqualValues(t, 2, draw(0, 0, .99))
	// Shares at temperature 1: token 2 has 5/9, token 1 has 2/9, tokens 0 and 3 have 1/9 each, in this order.
	for _, c := range []struct {
		u    float32
		want int32
	}{{0, 2}, {.55, 2}, {.56, 1}, {.77, 1}, {.78, 0}, {.88, 0}, {.89, 3}, {.999999, 3}} {
		assert.Equal(t, c.want, draw(1, 0, c.u), "u %v", c.u)
	}
	// Of the best two: 5/7, 2/7.
	assert.EqualValues(t, 2, draw(1, 2, .71))
	assert.EqualValues(t, 1, draw(1, 2, .72))
	assert.EqualValues(t, 1, draw(1, 2, .9999999))
	// Temperature 1/2 squares the odds: 25, 4, 1, 1.
	assert.EqualValues(t, 2, draw(.5, 0, .80))
	assert.EqualValues(t, 1, draw(.5, 0, .81))
	logits[3] = float32(math.NaN())
	_, err := choose(logits, 1, 0, .5)
	assert.ErrorContains(t, err, "logit 3: NaN")
}

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
}

func TestSampleConfig(t *testing.T) {
	good := SampleConfig{Prompt: "a", Tokens: 1}
	require.NoError(t, good.Validate())
	for name, edit := range map[string]func(*SampleConfig){
		"prompt":      func(c *SampleConfig) { c.Prompt = "" },
		"tokens":      func(c *SampleConfig) { c.Tokens = 0 },
		"temperature": func(c *SampleConfig) { c.Temperature = math.NaN() },
		"top_k":       func(c *SampleConfig) { c.TopK = -1 },
	} {
		c := good
		edit(&c)
		assert.ErrorContains(t, c.Validate(), name)
	}
}
