package rollout

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/prng"
)

const vocab = 50

// fake is a model whose logits are a function of what it has seen.
type fake struct {
	window int
	seen   []int32
	logits func(seen []int32) []float32
}

func (f *fake) Window() int { return f.window }

func (f *fake) Logits(_ context.Context, window []int32) ([]float32, error) {
	f.seen = slices.Clone(window)
	return f.logits(f.seen), nil
}

func (f *fake) Decode(_ context.Context, token int32) ([]float32, error) {
	f.seen = append(f.seen, token)
	return f.logits(f.seen), nil
}

// counting continues n with n+1.
func counting(seen []int32) []float32 {
	out := make([]float32, vocab)
	out[(seen[len(seen)-1]+1)%vocab] = 20
	return out
}

// wild has logits of all that it has seen.
func wild(seen []int32) []float32 {
	key := prng.NewKey(5)
	for _, token := range seen {
		key = key.FoldIn(uint32(token))
	}
	out := make([]float32, vocab)
	for i := range out {
		out[i] = 2 * key.Normal(uint64(i))
	}
	return out
}

func TestDraw(t *testing.T) {
	c := Config{Tokens: 4, Rows: 8, Stop: []int32{9, 30}, Ends: func(tokens []int32) bool { return tokens[len(tokens)-1] == 25 }}
	m := &fake{window: 8, logits: counting}
	prompts := []Prompt{{[]int32{3, 4}, 7, 2}, {[]int32{6, 7}, 8, 1}, {[]int32{23}, 9, 1}, {[]int32{1, 1, 1, 1, 1, 11}, 10, 1}}
	var told []Completion
	all, err := Draw(t.Context(), c, m, prompts, func(done Completion) { told = append(told, done) })
	require.NoError(t, err)
	assert.ElementsMatch(t, all, told)
	want := []Completion{
		{Prompt: 0, Tokens: []int32{5, 6, 7, 8}, Truncated: true},
		{Prompt: 0, Sample: 1, Tokens: []int32{5, 6, 7, 8}, Truncated: true},
		{Prompt: 1, Tokens: []int32{8, 9}},
		{Prompt: 2, Tokens: []int32{24, 25}},
		{Prompt: 3, Tokens: []int32{12, 13}, Truncated: true}, // the window is full
	}
	require.Len(t, all, len(want))
	for i, w := range want {
		for range w.Tokens {
			w.LogProbs = append(w.LogProbs, float32(-math.Log(1+(vocab-1)*math.Exp(-20))))
		}
		assert.Equal(t, w, all[i])
	}
}

// A row is a function of its own numbers.
func TestDrawnAlone(t *testing.T) {
	c := Config{Tokens: 6, Rows: 3, Temperature: 1, TopK: 40, TopP: .95, MinP: .01, Seed: 1 << 40, Generation: 2, Stop: []int32{3}}
	prompts := []Prompt{{[]int32{1, 2}, 5, 3}, {[]int32{1, 2}, 6, 2}, {[]int32{4}, 7, 1}}
	draw := func(c Config, prompts ...Prompt) []Completion {
		all, err := Draw(t.Context(), c, &fake{window: 30, logits: wild}, prompts, nil)
		require.NoError(t, err)
		return all
	}
	all := draw(c, prompts...)
	assert.Equal(t, all, draw(c, prompts...))
	for i, p := range prompts {
		var own []Completion
		for _, found := range all {
			if found.Prompt == i {
				found.Prompt = 0
				own = append(own, found)
			}
		}
		require.Len(t, own, p.Samples)
		assert.Equal(t, own, draw(c, p))
	}
	assert.NotEqual(t, all[0].Tokens, all[1].Tokens)
	for _, change := range []func(c *Config, p *Prompt){
		func(c *Config, _ *Prompt) { c.Seed++ },
		func(c *Config, _ *Prompt) { c.Seed = 0 },
		func(c *Config, _ *Prompt) { c.Generation++ },
		func(_ *Config, p *Prompt) { p.Number++ },
	} {
		other, p := c, prompts[0]
		change(&other, &p)
		assert.NotEqual(t, all[:3], draw(other, p))
	}
}

// Log-probabilities are those of the temperature, and of all that the model has.
func TestLogProbs(t *testing.T) {
	for _, temperature := range []float64{0, .5, 1, 2} {
		c := Config{Tokens: 5, Rows: 1, Temperature: temperature, TopK: 2, TopP: .9, Vocab: 20}
		all, err := Draw(t.Context(), c, &fake{window: 30, logits: wild}, []Prompt{{[]int32{1}, 0, 4}}, nil)
		require.NoError(t, err)
		for _, found := range all {
			seen := []int32{1}
			for i, token := range found.Tokens {
				logits, sum := wild(seen), 0.0
				if temperature == 0 {
					temperature = 1
					require.EqualValues(t, slices.Index(logits[:20], slices.Max(logits[:20])), token)
				}
				for _, l := range logits {
					sum += math.Exp(float64(l) / temperature)
				}
				require.InDelta(t, float64(logits[token])/temperature-math.Log(sum), found.LogProbs[i], 1e-6)
				require.Less(t, token, int32(20))
				seen, temperature = append(seen, token), c.Temperature
			}
		}
	}
}

func TestDrawRefuses(t *testing.T) {
	good := Config{Tokens: 3, Rows: 2, Temperature: 1}
	one := []Prompt{{[]int32{1}, 0, 1}}
	for says, try := range map[string]struct {
		c Config
		p []Prompt
	}{
		"tokens 0":              {Config{Rows: 1}, one},
		"rows 0":                {Config{Tokens: 1}, one},
		"top-p 2":               {Config{Tokens: 1, Rows: 1, TopP: 2}, one},
		"temperature NaN":       {Config{Tokens: 1, Rows: 1, Temperature: math.NaN()}, one},
		"prompt 1: 8 tokens":    {good, []Prompt{one[0], {make([]int32, 8), 1, 1}}},
		"prompt 0: 0 tokens":    {good, []Prompt{{nil, 1, 1}}},
		"prompt 0: 0 samples":   {good, []Prompt{{[]int32{1}, 1, 0}}},
		"prompt 2, sample 0, t": {good, []Prompt{one[0], one[0], {[]int32{49}, 0, 1}}},
	} {
		m := &fake{window: 8, logits: func(seen []int32) []float32 {
			out := counting(seen)
			if seen[0] == 49 && len(seen) == 3 {
				out[7] = float32(math.NaN())
			}
			return out
		}}
		_, err := Draw(t.Context(), try.c, m, try.p, nil)
		require.ErrorContains(t, err, says)
	}
	over, stop := context.WithCancel(t.Context())
	m := &fake{window: 8, logits: func(seen []int32) []float32 {
		stop()
		return counting(seen)
	}}
	_, err := Draw(over, good, m, one, nil)
	require.ErrorIs(t, err, context.Canceled)
}
