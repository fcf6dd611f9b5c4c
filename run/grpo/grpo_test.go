package grpo

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/reward"
)

// drawn are two prompts with two completions each, of which one reward says nothing of the last.
func drawn(t *testing.T) (Config, []data.Prompt, []Row) {
	t.Helper()
	nan := math.NaN()
	answers := map[string][]float64{"a": {1, 3, 2, nan}, "b": {0, 0, 1, 1}}
	c := Config{Samples: 2, Updates: 2, Shown: 1, Text: func(tokens []int32) string { return strings.Repeat("x", len(tokens)) }}
	for _, name := range []string{"a", "b"} {
		c.Rewards = append(c.Rewards, reward.Reward{Name: name, Weight: map[string]float64{"a": 1, "b": 0.5}[name], Function: reward.Func(
			func(_ context.Context, samples []reward.Sample) ([]float64, error) {
				assert.Equal(t, []any{int64(6), "xx", "xxx", "why"}, []any{samples[0].ID, samples[0].Prompt, samples[0].Completion, samples[0].Columns["why"]})
				return answers[name], nil
			})})
	}
	prompts := []data.Prompt{{Row: 5, Tokens: []int32{1, 2}, Columns: map[string]any{"why": "why"}}, {Row: 3, Tokens: []int32{3}}}
	var rows []Row
	for i := range 4 {
		tokens := []int32{10, 11, 12, 13}[:3-i/2]
		r := Row{Prompt: i / 2, Tokens: tokens, Truncated: i == 1}
		for j := range tokens {
			r.Sampled, r.Old = append(r.Sampled, float32(-i-j)), append(r.Old, float32(-i-j)-0.25)
		}
		rows = append(rows, r)
	}
	require.NoError(t, c.Reward(t.Context(), prompts, rows))
	return c, prompts, rows
}

func TestGenerationGoesThroughItsFile(t *testing.T) {
	c, prompts, rows := drawn(t)
	a, err := c.Advantages(rows)
	require.NoError(t, err)
	assert.InDelta(t, (1-2)/(math.Sqrt2+1e-4), rows[0].Advantage, 1e-12)
	assert.InDelta(t, (2.5-1.5)/(math.Sqrt2+1e-4), rows[2].Advantage, 1e-12, "of the last one reward has spoken")
	figures := c.Figures(rows, a, true)
	assert.InDelta(t, (1+3+2.5+0.5)/4, figures["reward"], 1e-12)
	assert.InDelta(t, 2, figures["rewards/a/mean"], 1e-12, "what it left out aside")
	assert.InDelta(t, 2.5, figures["mean_length"], 1e-12)
	assert.InDelta(t, 7, figures["tokens"], 0, "of the truncated one none")
	assert.InDelta(t, 0.25, figures["sampler_difference"], 1e-12)
	g := Of(c, prompts, rows)
	g.Number, g.Step, g.Place, g.Next = 7, 15, data.State{Epoch: 1, Position: 2}, data.State{Epoch: 1, Position: 4}
	raw, err := g.Bytes()
	require.NoError(t, err)
	read, err := Parse(raw, 4)
	require.NoError(t, err)
	assert.Equal(t, g, read)
	assert.Equal(t, rows, read.Rows())
	assert.Equal(t, []int32{3}, read.Prompts()[1].Tokens)
	again, err := read.Bytes()
	require.NoError(t, err)
	assert.Equal(t, raw, again)
	lines := c.Lines(read)
	require.Len(t, lines, 1)
	assert.Equal(t, "xx", lines[0].Prompt)
	assert.InDelta(t, 3, *lines[0].Completions[1].Rewards["a"], 0)
	for want, spoil := range map[string][2]string{
		"found format 2, wanted 1":               {`"format":1`, `"format":2`},
		"group 1: found no prompt":               {`"prompt":[3]`, `"prompt":[]`},
		"group 0, completion 0: found 2 tokens,": {`"tokens":[10,11,12]`, `"tokens":[10,11]`},
		"group 0, completion 0: found 3 tokens, 3 and 3 log-probabilities, 1 rewards": {`"rewards":[1,0]`, `"rewards":[1]`},
		"invalid character": {`"groups":[`, `"groups":[[`},
	} {
		require.Contains(t, string(raw), spoil[0])
		_, err := Parse([]byte(strings.Replace(string(raw), spoil[0], spoil[1], 1)), 4)
		if err == nil || !strings.Contains(err.Error(), "cannot unmarshal") {
			assert.ErrorContains(t, err, want)
		}
	}
	_, err = Parse(raw, 6)
	assert.ErrorContains(t, err, "found 4 completions, wanted 6")
	rows[3].Old[0] = float32(math.NaN())
	assert.ErrorContains(t, Finite(rows), "completion 3: found the log-probability NaN")
}

// TestLay: labels begin with the first token of the completion, at the last of the prompt, and old log-probabilities stand at them.
func TestLay(t *testing.T) {
	_, prompts, rows := drawn(t)
	rows[1].Advantage = -0.5
	b := Lay(prompts, rows, 6)
	n := int32(data.Ignored)
	assert.Equal(t, []int32{1, 2, 10, 11, 0, 0}, b.Tokens[:6])
	assert.Equal(t, []int32{n, 10, 11, 12, n, n}, b.Labels[:6])
	assert.Equal(t, []int32{10, 11, n, n, n, n}, b.Labels[12:18])
	assert.Equal(t, []float32{0, -1.25, -2.25, -3.25, 0, 0}, b.Beside[model.InputOld][6:12])
	assert.Equal(t, []float32{0, 1, 0, 0}, b.Beside[model.BesideTruncated])
	assert.InDelta(t, -0.5, b.Beside[model.InputAdvantages][1], 0)
	assert.Equal(t, 10, b.Count)
	logps := make([]float32, 24)
	for i := range logps {
		logps[i] = float32(i)
	}
	TakeOld(prompts, rows, 6, logps)
	assert.Equal(t, []float32{7, 8, 9}, rows[1].Old)
	rows[0].Old = nil
	assert.Equal(t, []float32{0, -1, -2}, Lay(prompts, rows, 6).Beside[model.InputOld][1:4], "learned from once")
}

func TestMeansOfOne(t *testing.T) {
	c, _, rows := drawn(t)
	a, err := c.Means(rows[:1])
	require.NoError(t, err)
	assert.InDelta(t, 1, a.Reward, 0)
	a, err = c.Means(rows)
	require.NoError(t, err)
	assert.InDelta(t, 1.75, a.Reward, 1e-12)
}

// TestArrange: rows to learn from fill as few microbatches as they can, in their order, and the others lie between these.
func TestArrange(t *testing.T) {
	rows := make([]Row, 12)
	for i := range rows {
		rows[i].Tokens = []int32{int32(i)}
	}
	for _, c := range []struct {
		learned, want []int
		idle          int
	}{
		{[]int{1, 4, 5}, []int{0, 2, 3, 6, 7, 8, 9, 10, 11, 1, 4, 5}, 9},
		{[]int{0, 1, 2, 3, 4, 5, 11}, []int{8, 9, 10, 0, 1, 2, 3, 4, 5, 11, 6, 7}, 3},
		{[]int{0, 1, 2, 3, 4, 5}, []int{6, 7, 8, 0, 1, 2, 9, 10, 11, 3, 4, 5}, 6},
		{nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 12},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0},
	} {
		arranged, idle := Arrange(rows, 3, func(r Row) bool { return slices.Contains(c.learned, int(r.Tokens[0])) })
		var found []int
		for _, r := range arranged {
			found = append(found, int(r.Tokens[0]))
		}
		assert.Equal(t, c.idle, idle)
		assert.Equal(t, c.want, found)
	}
}
