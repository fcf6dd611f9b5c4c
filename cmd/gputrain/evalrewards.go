package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"gputrain/buffers/array"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/grpo"
	"gputrain/run/reward"
	"gputrain/run/runfile"
	"gputrain/run/setup"
)

// rewards draws completions of prompts, as evaluations of their run do, and tells what the rewards of its run file say of them, less commands: eval starts none.
func (c *evalCmd) rewards(ctx context.Context, m *openedModel, cfg *runfile.Config, text *texts.Corpus, source data.Source, window int) (err error) {
	prompts, are := source.(*data.Prompts)
	if !are {
		return usageError{errors.New("eval: found no prompts, wanted rows of them")}
	}
	var left []string
	cfg.Rewards = slices.DeleteFunc(slices.Clone(cfg.Rewards), func(s reward.Spec) bool {
		if s.Starts() {
			left = append(left, fmt.Sprintf("%q", s.Called()))
		}
		return s.Starts()
	})
	if names := strings.Join(left, ", "); len(cfg.Rewards) == 0 {
		return usageError{fmt.Errorf("eval: %s: found the rewards %s alone, wanted one that is no command: eval starts none; eval_rollout in metrics.jsonl has what they said", c.Model, names)}
	} else if names != "" {
		say("gputrain: eval: the reward is without %s: eval starts no command\n", names)
	}
	if err := m.Narrow(model.Window(m.Definition(), window)); err != nil {
		return err
	}
	g, err := setup.Rewards(cfg, m.Definition(), window, prompts, text, c.tokens, m.drawn, told)
	if err != nil {
		return usageError{fmt.Errorf("eval: %w", err)}
	}
	if g.Rewards, err = g.Open(m.Params().Device()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Rewards.Close()) }()
	count := prompts.Len()
	if c.Limit > 0 {
		count = min(count, c.Limit/window)
	}
	asked, drawing := prompts.Spread(count), g.Evaluating()
	storage, err := array.ParseDType(cfg.Train.Storage)
	if err == nil {
		err = m.WidenAs(min(drawing.Drawing.Rows, count*drawing.Samples), storage)
	}
	if err != nil {
		return err
	}
	start := time.Now()
	rows, err := drawing.Draw(ctx, m, uint64(cfg.Train.Seed), grpo.Evaluations, asked, 0, drawing.Samples, func() {})
	if err == nil {
		err = drawing.Reward(ctx, asked, rows)
	}
	if err != nil {
		return err
	}
	return c.tellRewards(os.Stdout, g, rows, count, time.Since(start).Seconds())
}

// tellRewards tells what completions were worth.
func (c *evalCmd) tellRewards(to io.Writer, g *grpo.Config, rows []grpo.Row, prompts int, seconds float64) error {
	worth, figures, err := g.Worth(rows)
	if err != nil {
		return err
	}
	if c.JSON {
		all := map[string]any{"eval_loss": 0 - worth, "prompts": prompts, "completions": len(rows)}
		for name, v := range figures {
			all[name] = v
		}
		return json.NewEncoder(to).Encode(all)
	}
	line, said := "reward none", false
	if _, said = figures["reward"]; said {
		line = fmt.Sprintf("reward %.4f", figures["reward"])
	}
	for _, r := range g.Rewards {
		if mean, there := figures["rewards/"+r.Name+"/mean"]; there && len(g.Rewards) > 1 {
			line += fmt.Sprintf(", %s %.4f", r.Name, mean)
		}
	}
	_, err = fmt.Fprintf(to, "%s, %.1f tokens a completion, %.0f%% of them cut, %d completions of %d prompts, in %.1f s\n",
		line, figures["mean_length"], 100*figures["truncated_share"], len(rows), prompts, seconds)
	return err
}
