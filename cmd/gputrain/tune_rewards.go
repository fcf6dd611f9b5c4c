package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gputrain/gpu"
	"gputrain/run/data"
	"gputrain/run/grpo"
	"gputrain/run/reward"
	"gputrain/run/rollout"
	"gputrain/run/train"
)

// drawn puts held-out prompts to a model whose completions are rewarded.
type drawn struct {
	grpo.Config
	prompts []data.Prompt
	open    func(on *gpu.Device) (reward.Rewards, error)
	opened  bool // by the run, which closes them
}

// drawnIn are the prompts of a run that draws completions; nil: it does not, or holds out none.
func drawnIn(run *train.Config) *drawn {
	held, are := run.Validation.(*data.Prompts)
	if !are || run.Rollouts == nil {
		return nil
	}
	d := &drawn{Config: *run.Rollouts, open: run.Rollouts.Open}
	d.Drawing.Temperature, d.Drawing.Seed = 0, run.State.Seed
	d.prompts = held.Spread(held.Len())
	run.Rollouts.Open = func(on *gpu.Device) (all reward.Rewards, err error) { // they are opened once
		all, err = d.open(on)
		d.Rewards, d.opened = all, err == nil
		return all, err
	}
	return d
}

// over forgets what the run has opened, and closed by now.
func (d *drawn) over() {
	if d != nil {
		d.opened = false
	}
}

// put writes what the model makes of them by its likeliest tokens, and what that is worth.
func (d *drawn) put(ctx context.Context, out io.Writer, when string, m rollout.Model, p train.Progress) (err error) {
	if !d.opened {
		if d.Rewards, err = d.open(nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Rewards.Close()) }()
	}
	done := 0
	rows, err := d.Draw(ctx, m, d.Drawing.Seed, 0, d.prompts, 0, 1, func() {
		done++
		p.Busy("completions "+when, done, len(d.prompts))
	})
	if err == nil {
		err = d.Reward(ctx, d.prompts, rows)
	}
	if err != nil {
		return err
	}
	means, err := d.Means(rows)
	if err != nil {
		return err
	}
	p.Clear()
	for i, r := range rows[:min(asked, len(rows))] {
		var said []string
		for f, of := range d.Rewards {
			text := "nothing"
			if v := r.Rewards[f]; v != nil {
				text = fmt.Sprintf("%.3g", *v)
			}
			said = append(said, of.Name+" "+text)
		}
		if _, err := fmt.Fprintf(out, "%s\n  prompt    %s\n  answer    %s\n  rewards   %s\n", when,
			line(d.Text(d.prompts[i].Tokens)), line(d.Text(r.Tokens)), strings.Join(said, ", ")); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s: mean reward of %d held-out prompts %.3f\n", when, len(rows), means.Reward)
	return err
}
