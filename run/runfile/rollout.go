package runfile

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/internal/formats"
	"gputrain/model"
)

// rollout is the section of the objective on completions that the model itself draws. Where others have published settings they are named.
type rollout struct {
	Loss          string   `yaml:"loss" default:"none" range:"rollouts" doc:"objective on prompts of data.jsonl (prompt: text, messages or ids; the other columns are for rewards): the model draws completions of each, rewards say how good they are, and it learns from the better ones (docs/rollouts.md): dapo (the mean over all tokens), grpo (the mean over completions), dr_grpo (a sum over train.batch x rollout.tokens), bnpo (as dapo), gspo (ratios of whole completions), cispo (clipped weights). none: the model draws nothing"`
	Samples       int      `yaml:"samples" default:"8" range:"2..65536" doc:"completions of each prompt, a group, whose rewards are compared with each other"`
	Updates       int      `yaml:"updates" default:"1" range:"1..65536" doc:"updates that learn from a generation, each from rows of its own. A generation has train.batch x train.accumulate x this completions, of that many prompts less by rollout.samples. GSPO is published with 4"`
	Tokens        int      `yaml:"tokens" default:"512" range:"1.." doc:"most tokens of a completion, the one that ends it among them; one that has not ended by then, or at the end of the window, is cut"`
	Stop          []string `yaml:"stop" doc:"texts that end a completion, besides the tokens that end a text: it is what was drawn up to the token that completed one of them"`
	Temperature   float64  `yaml:"temperature" default:"1" range:">0" doc:"logits are divided by this, when tokens are drawn and when they are learned from"`
	TopK          int      `yaml:"top_k" range:"0.." doc:"likeliest tokens that are drawn from; 0: all"`
	TopP          float64  `yaml:"top_p" default:"1" range:"0..1" doc:"likeliest tokens that are drawn from, as many as have this share of the probability; 1: all"`
	MinP          float64  `yaml:"min_p" range:"0..1" doc:"least probability of tokens that are drawn from, as a share of the greatest; 0: all"`
	Epsilon       *float64 `yaml:"epsilon" range:"0..1" doc:"all but cispo: how far below 1 the ratio of a token's probability to that when it was drawn is followed. null: 0.2, and 0.0003 for gspo"`
	EpsilonHigh   *float64 `yaml:"epsilon_high" range:"0..1e30" doc:"how far above 1 it is followed; DAPO is published with 0.28. For cispo the greatest weight itself. null: as epsilon, 0.0004 for gspo, 5 for cispo"`
	Delta         *float64 `yaml:"delta" range:"0..1e30" doc:"all but cispo: cap of the ratio where the advantage is negative, above 1 + epsilon_high; null: none"`
	Beta          float64  `yaml:"beta" range:"0..1e6" doc:"weight of the divergence from the reference: the model without its adapters, or, where all of it is trained, as training began, of which devices then keep a copy; R1 is published with 0.001. 0: none"`
	MaskTruncated bool     `yaml:"mask_truncated_completions" doc:"whether nothing is learned from completions that were cut; their rewards count among those of their group all the same"`
	Scale         string   `yaml:"scale" default:"auto" range:"auto|group|batch|none" doc:"what the difference of a reward from the mean of its group is divided by: the deviation of the group (group) or of the generation (batch), or nothing (none); auto: none for dr_grpo, as it is published, else group"`
	Aggregation   string   `yaml:"aggregation" default:"sum" range:"sum|apart" doc:"several rewards: advantages of their weighted sum (sum), or of each by itself, weighted and scaled once more (apart: GDPO, without rollout.scale)"`
	Rows          int      `yaml:"rows" default:"64" range:"1..65536" resume:"free" doc:"completions under way at once, at most: more are faster, and take memory for the keys and values of each. What is drawn is the same"`
	EvalSamples   int      `yaml:"eval_samples" range:"0..65536" doc:"completions of each held-out prompt in an evaluation (train.eval_every), drawn as others are; 0: one of the likeliest tokens"`
	Shown         int      `yaml:"shown" default:"2" range:"0..65536" resume:"free" doc:"prompts of each generation whose completions and rewards are written to rollouts.jsonl"`
}

// rolloutLosses are the values of rollout.loss.
var rolloutLosses = objectives(func(of model.Loss) bool { return of.Form == formats.Prompts })

// draws is the row of namings of the section.
var draws = naming{
	section: "rollout", key: "rollout.loss", none: noObjective, loss: func(c *Config) string { return lossOf(c.Rollout.Loss) },
	beside: []string{"samples", "updates", "tokens", "stop", "top_k", "top_p", "min_p", "scale", "aggregation", "rows", "eval_samples", "shown"},
	numbers: func(c *Config, numbers map[string]float64) {
		r := c.Rollout
		low, high := 0.2, 0.2
		switch r.Loss {
		case "gspo":
			low, high = 3e-4, 4e-4
		case "cispo":
			low, high = 0, 5
		default:
			if r.Epsilon != nil {
				high = *r.Epsilon
			}
		}
		all := map[string]float64{
			"epsilon": *cmp.Or(r.Epsilon, &low), "epsilon_high": *cmp.Or(r.EpsilonHigh, &high), "on_policy": 0, "max_completion_length": float64(r.Tokens),
		}
		if r.Updates == 1 {
			all["on_policy"] = 1
		}
		if r.Beta == 0 {
			all["skip_flat"] = 1
		}
		for name, v := range all {
			if (model.Objective{Loss: r.Loss}).Row().Reads(name) {
				numbers[name] = v
			}
		}
	},
}

// DrawsRollouts tells whether the run draws what it learns from.
func (c *Config) DrawsRollouts() bool { return c.Objective().Row().Form == formats.Prompts }

// Rewarding says how rewards become advantages.
func (c *Config) Rewarding() model.Rewarding {
	r := model.Rewarding{Scale: c.Rollout.Scale, Apart: c.Rollout.Aggregation == "apart"}
	if r.Scale == "auto" {
		if r.Scale = model.ScaleGroup; c.Rollout.Loss == "dr_grpo" {
			r.Scale = model.ScaleNone
		}
	}
	return r
}

// validateRollouts checks what the keys of rollouts and rewards say together.
func (c *Config) validateRollouts() error {
	r := c.Rollout
	switch rows := c.Train.Batch * c.Train.Accumulate * r.Updates; {
	case r.Loss == noObjective && len(c.Rewards) > 0:
		return c.Invalid("rewards", inline(c.Rewards), "none with rollout.loss none: the model draws nothing that they could be of")
	case r.Loss == noObjective:
		return nil
	case len(c.Rewards) == 0:
		return c.Invalid("rewards", "none", "at least one with rollout.loss "+r.Loss+", such as [{kind: equal, column: answer}]")
	case slices.Contains(r.Stop, ""):
		return c.Invalid("rollout.stop", inline(r.Stop), "texts that are not empty")
	case rows%r.Samples != 0:
		return c.Invalid("rollout.samples", r.Samples, fmt.Sprintf("a divisor of the %d completions of a generation (train.batch x train.accumulate x rollout.updates)", rows))
	case r.Aggregation == "apart" && !c.IsDefault("rollout.scale"):
		return c.Invalid("rollout.scale", r.Scale, "nothing with rollout.aggregation apart, which scales twice")
	case r.Delta != nil && *r.Delta <= 1:
		return c.Invalid("rollout.delta", *r.Delta, "more than 1 + rollout.epsilon_high, or null")
	}
	return nil
}
