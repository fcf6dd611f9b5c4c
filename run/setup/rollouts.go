package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gputrain/gpu"
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
	"gputrain/state/checkpoint"
)

// Rewards is how a run draws completions of prompts and what it says of them, for a model that is there. No command starts.
func Rewards(
	cfg *runfile.Config, def model.Definition, window int, prompts *data.Prompts, text *texts.Corpus, tokens Tokens, from *hub.Bundle, out io.Writer,
) (*grpo.Config, error) {
	return rewards{Tokens: tokens, def: def, window: window, text: text, from: from}.of(cfg, []*data.Prompts{prompts}, out)
}

// rollouts makes the run draw what it learns from, as its run file says. commands: those of rewards may start, typed or not.
func rollouts(run *train.Config, cfg *runfile.Config, text *texts.Corpus, tokens Tokens, from *hub.Bundle, commands bool, out io.Writer) (err error) {
	var asked []*data.Prompts
	for _, source := range []data.Source{run.Train, run.Validation} {
		if prompts, are := source.(*data.Prompts); are {
			asked = append(asked, prompts)
		}
	}
	with := rewards{Tokens: tokens, def: run.State.Definition, window: run.State.Sequence, text: text, from: from, commands: commands}
	if run.Rollouts, err = with.of(cfg, asked, out); err != nil {
		return err
	}
	if len(asked) > 0 && cfg.Train.Sample.Prompt == "" && run.Sample.Tokens > 0 {
		run.Sample.Begin, run.Sample.Stop = asked[len(asked)-1].At(0).Tokens, run.Rollouts.Drawing.Stop
		run.Sample.Prompt = Spoken(run.Tokenizer, run.Sample.Begin)
	}
	return nil
}

// rewards is what rollouts of a run file are made with.
type rewards struct {
	Tokens
	def      model.Definition
	window   int
	text     *texts.Corpus
	from     *hub.Bundle // of the model; nil: it is new
	commands bool        // those of rewards may start, typed or not
}

// of is how completions are drawn of prompts, and what is said of them.
func (w rewards) of(cfg *runfile.Config, asked []*data.Prompts, out io.Writer) (*grpo.Config, error) {
	tokenizer := w.Text()
	if tokenizer == nil {
		return nil, errors.New("rollout: found no tokenizer, wanted one (data.tokenizer): rewards read texts")
	}
	stop, err := w.stops(cfg)
	if err != nil {
		return nil, err
	}
	r := cfg.Rollout
	c := &grpo.Config{
		Samples: r.Samples, Updates: r.Updates, Rewarding: cfg.Rewarding(), EvalSamples: r.EvalSamples, Shown: r.Shown,
		Drawing: rollout.Config{
			Tokens: r.Tokens, Temperature: r.Temperature, TopK: r.TopK, TopP: r.TopP, MinP: r.MinP, Vocab: tokenizer.Size(), Stop: stop, Rows: r.Rows,
		},
		Text: withoutSpecial(tokenizer),
	}
	c.Drawing.Ends = EndsWith(r.Stop, tokenizer)
	for _, prompts := range asked {
		if err := grpo.CheckPrompts(prompts, w.window); err != nil {
			return nil, err
		}
	}
	for i, s := range cfg.Rewards {
		weight := 1.0
		c.Rewards = append(c.Rewards, reward.Reward{Name: cmp.Or(s.Name, s.Kind), Weight: *cmp.Or(s.Weight, &weight)})
		for _, p := range asked {
			for row := range p.Len() {
				if err := s.CheckRow(p.At(row).Columns); err != nil {
					return nil, fmt.Errorf("rewards[%d]: row %d: %w", i, p.At(row).Row+1, err)
				}
			}
		}
	}
	if err := c.Check(cfg.Train.Batch*cfg.Train.Accumulate, w.window); err != nil {
		return nil, err
	}
	env := reward.Env{AllowCommand: w.commands || cfg.CommandsTyped(), Tokens: r.Tokens, Log: func(line string) { fmt.Fprintf(out, "gputrain: %s\n", line) }}
	env.Model = w.opener(cfg, nil, out)
	if err := reward.Check(cfg.Rewards, env); err != nil {
		return nil, err
	}
	c.Open = func(on *gpu.Device) (reward.Rewards, error) {
		env.Model = w.opener(cfg, on, out)
		return reward.OpenAll(cfg.Rewards, env)
	}
	return c, nil
}

// stops are the tokens that end what a model draws: those of its generation_config.json and config.json, the tokenizer's, the chat template's, and data.eos.
func (w rewards) stops(cfg *runfile.Config) (stop []int32, err error) {
	if w.from != nil {
		if stop, err = stranger.Ends(w.from, checkpoint.GenerationFile); err != nil {
			return nil, &ModelError{err}
		}
	}
	own, err := endsOf(w.def)
	if err != nil {
		return nil, err
	}
	answers, err := w.answerEnds(w.text)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Concat(own, w.Ends(), answers) {
		stop = with(stop, id)
	}
	switch end := cfg.Data.Layout.End; {
	case end != nil && *end >= 0:
		stop = with(stop, int32(*end))
	case end == nil && len(stop) == 0 && w.Kind == plan.ByteTokens: // what rows of text end with
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
	return func(tokens []int32) string {
		return train.TextOf(t, nil, slices.DeleteFunc(slices.Clone(tokens), func(id int32) bool { return slices.Contains(special, id) }))
	}
}

// EndsWith tells whether tokens that a tokenizer reads have completed one of the texts; nil where there is none.
func EndsWith(texts []string, t train.Tokenizer) func(tokens []int32) bool {
	return endsWith(texts, withoutSpecial(t), specialOf(t))
}

// joined is how many more tokens are read than a text has bytes: a decoder may take a space from the first, and gives up bytes of which the first are the end of
// a character, which has no more than utf8.UTFMax.
const joined = 1 + utf8.UTFMax

// endsWith is EndsWith by the text of tokens. Each token that a text goes through has a byte of it, so the last
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
