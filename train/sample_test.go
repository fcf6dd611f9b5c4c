package train

import (
	"context"
	"math"
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

func TestGenerateTokens(t *testing.T) {
	// A model that continues n with n+1 and sees at most three tokens.
	var widest int
	logits := func(_ context.Context, window []int32) ([]float32, error) {
		widest = max(widest, len(window))
		out := make([]float32, 50)
		out[window[len(window)-1]+1] = 20
		return out, nil
	}
	c := SampleConfig{Prompt: "x", Tokens: 10, Temperature: .1, Seed: 7}
	run := func(seed uint64, temperature float64) (got []int32) {
		c.Seed, c.Temperature = seed, temperature
		require.NoError(t, GenerateTokens(t.Context(), c, []int32{5, 6}, 3, logits, func(token int32) bool {
			got = append(got, token)
			return len(got) < 8
		}))
		return got
	}
	assert.Equal(t, []int32{7, 8, 9, 10, 11, 12, 13, 14}, run(7, .1), "ends when yield says so")
	assert.Equal(t, 3, widest)
	wild := func(_ context.Context, _ []int32) ([]float32, error) { return make([]float32, 50), nil }
	logits = wild
	assert.Equal(t, run(7, 1), run(7, 1))
	assert.NotEqual(t, run(7, 1), run(8, 1))
	assert.ErrorContains(t, GenerateTokens(t.Context(), c, nil, 3, logits, nil), "0 tokens")
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
