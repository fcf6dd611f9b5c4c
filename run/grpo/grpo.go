// Package grpo makes generations: completions that a model draws of prompts, several of each, what reward functions say of them, and the advantages that follow.
// A generation is learned from in one update or in several, each of as many rows as any other update of the run has. What a generation is follows from the
// parameters, the seed, its number and its place among the prompts, so a run that goes on from before it makes the same.
package grpo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/reward"
	"gputrain/run/rollout"
)

// Config says how generations are made.
type Config struct {
	Samples int            // completions of a prompt
	Updates int            // of a generation
	Drawing rollout.Config // Seed and Generation aside
	Rewards reward.Rewards // by name, with their weights; their functions too where Open is nil
	// Open opens the functions of Rewards, for the process that asks them and closes them: models on a device, nil for one of their own.
	Open      func(on *gpu.Device) (reward.Rewards, error)
	Rewarding model.Rewarding // Group and Weights aside
	// EvalSamples are the completions of each held-out prompt of an evaluation, drawn as others are; 0: one of the likeliest tokens.
	EvalSamples int
	Shown       int                         // prompts of a generation that are logged with their completions
	Text        func(tokens []int32) string // for people and reward functions, special tokens left out
}

// Check refuses a configuration for updates of so many rows, in a window of so many tokens.
func (c Config) Check(rows, window int) error {
	switch {
	case c.Samples < 2:
		return fmt.Errorf("rollout.samples: found %d, wanted at least 2: an advantage is over others of the same prompt", c.Samples)
	case c.Updates < 1:
		return fmt.Errorf("rollout.updates: found %d, wanted at least 1", c.Updates)
	case rows*c.Updates%c.Samples != 0:
		return fmt.Errorf("rollout.samples: found %d, wanted a divisor of the %d rows of a generation (train.batch x train.accumulate x rollout.updates)",
			c.Samples, rows*c.Updates)
	case len(c.Drawing.Stop) == 0 && c.Drawing.Ends == nil:
		return errors.New("rollout: found no token that ends a text, wanted one: eos_token_id of generation_config.json, the tokenizer's end token, or data.eos")
	case len(c.Rewards) == 0:
		return errors.New("rewards: found none, wanted at least one: they say what is good")
	case c.Drawing.Tokens >= window:
		return fmt.Errorf("rollout.tokens: found %d, wanted less than the window of %d tokens (model.context)", c.Drawing.Tokens, window)
	}
	return nil
}

// CheckPrompts refuses prompts that a window has no room behind.
func CheckPrompts(prompts *data.Prompts, window int) error {
	for i := range prompts.Len() {
		if p := prompts.At(i); len(p.Tokens) >= window {
			return fmt.Errorf("data: prompts: row %d: found %d tokens, wanted less than the window of %d (model.context)", p.Row+1, len(p.Tokens), window)
		}
	}
	return nil
}

// Prompts are those of a generation, for updates of so many rows.
func (c Config) Prompts(rows int) int { return rows * c.Updates / c.Samples }

// A Row is a completion.
type Row struct {
	Prompt    int        `json:"-"` // of the generation
	Tokens    []int32    `json:"tokens"`
	Truncated bool       `json:"truncated,omitempty"`
	Sampled   []float32  `json:"sampled_logps"`       // log-probabilities of the tokens as the sampler had them
	Old       []float32  `json:"old_logps,omitempty"` // as training has them; nil: each row is learned from once
	Rewards   []*float64 `json:"rewards"`             // of each function; nil: it said nothing
	Advantage float64    `json:"advantage"`
}

// Draw draws completions of prompts, of which the first has a number among those of the generation, with samples each.
func (c Config) Draw(ctx context.Context, m rollout.Model, seed, generation uint64, prompts []data.Prompt, first, samples int, done func()) (rows []Row, err error) {
	d := c.Drawing
	d.Seed, d.Generation = seed, generation
	asked := make([]rollout.Prompt, len(prompts))
	for i, p := range prompts {
		asked[i] = rollout.Prompt{Tokens: p.Tokens, Number: uint64(first + i), Samples: samples}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	all, err := rollout.Draw(ctx, d, m, asked, func(rollout.Completion) { done() })
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		rows = append(rows, Row{Prompt: first + a.Prompt, Tokens: a.Tokens, Truncated: a.Truncated, Sampled: a.LogProbs})
	}
	return rows, nil
}

// Reward asks all functions about rows.
func (c Config) Reward(ctx context.Context, prompts []data.Prompt, rows []Row) error {
	samples := make([]reward.Sample, len(rows))
	for i, r := range rows {
		p := prompts[r.Prompt]
		samples[i] = reward.Sample{
			ID: p.Row + 1, Prompt: c.Text(p.Tokens), Completion: c.Text(r.Tokens), PromptTokens: p.Tokens, Tokens: r.Tokens, Truncated: r.Truncated, Columns: p.Columns,
		}
	}
	answers, err := c.Rewards.Of(ctx, samples)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Rewards = make([]*float64, len(answers))
		for f := range answers {
			if v := answers[f][i]; !math.IsNaN(v) {
				rows[i].Rewards[f] = &v
			}
		}
	}
	return nil
}

// Advantages lays the advantage of each row beside it.
func (c Config) Advantages(rows []Row) (model.Advantages, error) {
	a, err := c.weighed(c.Samples).Advantages(said(rows))
	for i, advantage := range a.Of {
		rows[i].Advantage = advantage
	}
	return a, err
}

// Means are what rewards of rows come to that nobody learns from: no advantages.
func (c Config) Means(rows []Row) (model.Advantages, error) {
	all := said(rows)
	if len(all) == 1 { // a group has two, of which one may say nothing
		all = append(all, slices.Repeat([]float64{math.NaN()}, len(c.Rewards)))
	}
	return c.weighed(len(all)).Advantages(all)
}

func (c Config) weighed(group int) model.Rewarding {
	r := c.Rewarding
	r.Group, r.Weights = group, nil
	for _, one := range c.Rewards {
		r.Weights = append(r.Weights, one.Weight)
	}
	return r
}

// said are the rewards of rows, NaN for nothing.
func said(rows []Row) [][]float64 {
	all := make([][]float64, len(rows))
	for i, r := range rows {
		for _, v := range r.Rewards {
			x := math.NaN()
			if v != nil {
				x = *v
			}
			all[i] = append(all[i], x)
		}
	}
	return all
}
