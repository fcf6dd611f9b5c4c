package setup

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/grpo"
	"gputrain/run/plan"
	"gputrain/run/reward"
	"gputrain/run/rollout"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// Rewards is how a run draws completions of prompts and what it says of them, for a model that is there. No command starts.
func Rewards(
	cfg *runfile.Config, def model.Definition, window int, prompts *data.Prompts, text *texts.Corpus, tokens Tokens, from *hub.Bundle, out io.Writer,
) (*grpo.Config, error) {
	run := train.Config{Tokenizer: tokens.Text(), Train: prompts, State: state.Config{Definition: def, Sequence: window, Batch: cfg.Train.Batch, Microbatches: cfg.Train.Accumulate}}
	cfg = cfg.Clone()
	cfg.Train.Sample.Tokens = 0
	if err := rollouts(&run, cfg, text, tokens, from, false, out); err != nil {
		return nil, err
	}
	return run.Rollouts, nil
}

// rollouts makes the run draw what it learns from, as its run file says. commands: those of rewards may start, typed or not.
func rollouts(run *train.Config, cfg *runfile.Config, text *texts.Corpus, tokens Tokens, from *hub.Bundle, commands bool, out io.Writer) error {
	if run.Tokenizer == nil {
		return fmt.Errorf("rollout: found no tokenizer, wanted one (data.tokenizer): rewards read texts")
	}
	stop, err := tokens.stops(run, cfg, text, from)
	if err != nil {
		return err
	}
	r := cfg.Rollout
	c := &grpo.Config{
		Samples: r.Samples, Updates: r.Updates, Rewarding: cfg.Rewarding(), EvalSamples: r.EvalSamples, Shown: r.Shown,
		Drawing: rollout.Config{
			Tokens: r.Tokens, Temperature: r.Temperature, TopK: r.TopK, TopP: r.TopP, MinP: r.MinP, Vocab: run.Tokenizer.Size(), Stop: stop, Rows: r.Rows,
		},
		Text: withoutSpecial(run.Tokenizer),
	}
	c.Drawing.Ends = endsWith(r.Stop, c.Text, specialOf(run.Tokenizer))
	var asked []*data.Prompts
	for _, source := range []data.Source{run.Train, run.Validation} {
		if prompts, are := source.(*data.Prompts); are {
			asked = append(asked, prompts)
			if err := grpo.CheckPrompts(prompts, run.State.Sequence); err != nil {
				return err
			}
		}
	}
	for i, s := range cfg.Rewards {
		weight := 1.0
		c.Rewards = append(c.Rewards, reward.Reward{Name: cmp.Or(s.Name, s.Kind), Weight: *cmp.Or(s.Weight, &weight)})
		for _, p := range asked {
			for row := range p.Len() {
				if err := s.CheckRow(p.At(row).Columns); err != nil {
					return fmt.Errorf("rewards[%d]: row %d: %w", i, p.At(row).Row+1, err)
				}
			}
		}
	}
	if err := c.Check(run.State.Batch*run.State.Microbatches, run.State.Sequence); err != nil {
		return err
	}
	env := reward.Env{AllowCommand: commands || cfg.CommandsTyped(), Tokens: r.Tokens, Log: func(line string) { fmt.Fprintf(out, "gputrain: %s\n", line) }}
	policy := ""
	if tokens.Tokenizer != nil {
		policy = tokens.Tokenizer.Fingerprint()
	}
	env.Model = func(dir string) (reward.Function, error) { return openReward(cfg, dir, policy, out) }
	if err := reward.Check(cfg.Rewards, env); err != nil {
		return err
	}
	c.Open = func() (reward.Rewards, error) { return reward.OpenAll(cfg.Rewards, env) }
	run.Rollouts = c
	if first, are := cmp.Or(run.Validation, run.Train).(*data.Prompts); are && cfg.Train.Sample.Prompt == "" && run.Sample.Tokens > 0 {
		run.Sample.Begin, run.Sample.Stop = first.At(0).Tokens, stop
		run.Sample.Prompt = Spoken(run.Tokenizer, run.Sample.Begin)
	}
	return nil
}

// stops are the tokens that end what a model draws: those of its generation_config.json and config.json, the tokenizer's, the chat template's, and data.eos.
func (t Tokens) stops(run *train.Config, cfg *runfile.Config, text *texts.Corpus, from *hub.Bundle) (stop []int32, err error) {
	if from != nil {
		if stop, err = stranger.Ends(from, checkpoint.GenerationFile); err != nil {
			return nil, &ModelError{err}
		}
	}
	own, err := endsOf(run.State.Definition)
	if err != nil {
		return nil, err
	}
	answers, err := t.answerEnds(text)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Concat(own, t.Ends(), answers) {
		stop = with(stop, id)
	}
	switch end := cfg.Data.Layout.End; {
	case end != nil && *end >= 0:
		stop = with(stop, int32(*end))
	case end == nil && len(stop) == 0 && t.Kind == plan.ByteTokens: // what rows of text end with
		stop = []int32{0}
	}
	return stop, nil
}

// specialOf are the tokens that no text has.
func specialOf(t train.Tokenizer) []int32 {
	if file, ok := t.(fileTokenizer); ok {
		return file.Special()
	}
	return nil
}

// withoutSpecial is the text of tokens, special ones left out.
func withoutSpecial(t train.Tokenizer) func(tokens []int32) string {
	special := specialOf(t)
	return func(tokens []int32) (text string) {
		stream := t.Continue(nil)
		for _, id := range tokens {
			if !slices.Contains(special, id) {
				text += stream.Next(id)
			}
		}
		return text + stream.End()
	}
}

// joined is how many more tokens are read than a text has bytes: a decoder may take a space from the first, and gives up bytes of which the first are the end of
// a character, which has no more than utf8.UTFMax.
const joined = 1 + utf8.UTFMax

// endsWith tells whether tokens have completed one of the texts; nil where there is none. Each token that a text goes through has a byte of it, so the last
// ones are enough to read. They are read anew each time: what a stream holds back until more comes may be the end of a text.
func endsWith(texts []string, textOf func(tokens []int32) string, special []int32) func(tokens []int32) bool {
	if len(texts) == 0 {
		return nil
	}
	longest := 0
	for _, text := range texts {
		longest = max(longest, len(text)+joined)
	}
	return func(tokens []int32) bool {
		first := len(tokens)
		for n := 0; first > 0 && n < longest; first-- {
			if !slices.Contains(special, tokens[first-1]) {
				n++
			}
		}
		for i := first; i < min(first+utf8.UTFMax, len(tokens)); i++ {
			text := textOf(tokens[i:])
			if slices.ContainsFunc(texts, func(stop string) bool { return strings.Contains(text, stop) }) {
				return true
			}
		}
		return false
	}
}
