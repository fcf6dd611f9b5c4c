package doctor

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// spoilt is a modelRun that is given other batches than the case has.
type spoilt struct {
	*twinModel
	spoil func(b data.Batch) data.Batch
}

func (s spoilt) learn(b data.Batch) (map[string][]float32, error) {
	return s.twinModel.learn(s.spoil(b))
}

// sooner has the last tokens of rows one place before.
func sooner(b data.Batch) data.Batch {
	labels := slices.Clone(b.Labels)
	for i := 1; i < len(labels); i++ {
		if i%(len(labels)/b.Rows) > 0 && labels[i-1] == graph.IgnoreLabel {
			labels[i-1], labels[i] = labels[i], labels[i-1]
		}
	}
	b.Labels = labels
	return b
}

// swapped has neighbours in each other's place.
func swapped(b data.Batch) data.Batch {
	seq := len(b.Tokens) / b.Rows
	tokens, labels := slices.Clone(b.Tokens), slices.Clone(b.Labels)
	for i := 0; i+1 < b.Rows; i += 2 {
		for at := i * seq; at < (i+1)*seq; at++ {
			tokens[at], tokens[at+seq] = b.Tokens[at+seq], b.Tokens[at]
			labels[at], labels[at+seq] = b.Labels[at+seq], b.Labels[at]
		}
	}
	b.Tokens, b.Labels = tokens, labels
	return b
}

// filled has other tokens behind rows.
func filled(b data.Batch) data.Batch {
	tokens, ended := slices.Clone(b.Tokens), false
	for i := range tokens {
		if i%(len(tokens)/b.Rows) == 0 {
			ended = false
		}
		if ended {
			tokens[i] = 7
		}
		ended = ended || b.Labels[i] != graph.IgnoreLabel
	}
	b.Tokens = tokens
	return b
}

func openHeads(t *testing.T, kind, name string) (*goldenCase, steps) {
	if kind == "reward" {
		return opened(t, kind, name, func(c *goldenCase, dir fs.FS) (steps, error) { return loadReward(c, dir) })
	}
	return opened(t, kind, name, func(c *goldenCase, dir fs.FS) (steps, error) { return loadEmbed(c, dir) })
}

// TestTwinFollowsHeads holds the graphs of heads against cases, in float64; and what a case must catch.
func TestTwinFollowsHeads(t *testing.T) {
	same := func(b data.Batch) data.Batch { return b }
	number := func(name string, to float64) func(s steps) {
		return func(s steps) { s.network().learned.Numbers[name] = to }
	}
	as := func(steps) {}
	for _, row := range []struct {
		kind, name, what string
		spoil            func(s steps)
		batch            func(b data.Batch) data.Batch
		passes           bool
	}{
		{"reward", "reward_qwen3_lora", "", as, same, true},
		{"reward", "reward_qwen3_lora", "other padding", as, filled, true},
		{"reward", "reward_qwen3_lora", "a token sooner", as, sooner, false},
		{"reward", "reward_qwen3_lora", "rejected before chosen", as, swapped, false},
		{"reward", "reward_qwen3_lora", "no centring", number("center_rewards_coefficient", 0), same, false},
		{"reward", "reward_qwen3_lora", "a margin", as, func(b data.Batch) data.Batch {
			b.Beside = map[string][]float32{model.InputMargin: slices.Repeat([]float32{0.001}, b.Rows)}
			return b
		}, false},
		{"reward", "reward_qwen3_lora", "divided by rows", as, same, false},
		{"reward", "reward_qwen3_lora", "another accuracy", func(s steps) { s.common().Metrics[2]["accuracy"] = numbers{0} }, same, false},
		{"reward", "reward_qwen3_lora", "another least reward", func(s steps) { s.common().Metrics[2]["min_reward"][0] += 1e-3 }, same, false},
		{"embed", "embed_llama_mean", "", as, same, true},
		{"embed", "embed_llama_mean", "other padding", as, filled, true},
		{"embed", "embed_llama_mean", "a token sooner", as, sooner, false},
		{"embed", "embed_llama_mean", "the positive asks", as, swapped, false},
		{"embed", "embed_llama_mean", "temperature", number("temperature", 0.201), same, false},
		{"embed", "embed_llama_mean", "divided by sequences", as, same, false},
		{"embed", "embed_llama_mean", "another similarity", func(s steps) { s.common().Metrics[1]["positive_similarity"][0] += 1e-3 }, same, false},
	} {
		t.Run(row.name+" "+row.what, func(t *testing.T) {
			c, s := openHeads(t, row.kind, row.name)
			row.spoil(s)
			run := spoilt{newTwinModel(t, s.network()), row.batch}
			if strings.HasPrefix(row.what, "divided") {
				run.divided = 2
			}
			seen, err := s.train(c, run)
			require.NoError(t, err)
			assertPassed(t, row.passes, seen)
			if row.passes {
				assert.Less(t, seen.ratio, 0.2, "float64 throughout, but for what is stored")
			}
		})
	}
}
