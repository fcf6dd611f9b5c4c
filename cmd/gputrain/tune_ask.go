package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"gputrain/data"
	"gputrain/internal/terminal"
	"gputrain/train"
)

// asked is how many questions are put to the model before and after.
const asked = 2

// question is the beginning of a conversation that is held out, and how it goes on there.
type question struct{ prompt, answer []int32 }

// When questions are put.
const (
	before = "before tuning"
	after  = "after tuning"
)

// asker puts held-out questions to the model of a run.
type asker struct {
	out       io.Writer
	questions []question
	sample    train.SampleConfig
	tokens    train.Tokenizer
	best      bool // the run is done, and another checkpoint than the last is the best: that one is yet to be asked
}

// ask makes a run put them, before the first step and after the last.
func (a *asker) ask(run *train.Config) error {
	held, ok := run.Validation.(*data.Documents)
	if run.Tokenizer == nil || !ok || run.Sample.Tokens == 0 {
		return nil
	}
	shown, err := held.Show(50, run.State.Sequence)
	if err != nil {
		return err
	}
	for _, s := range shown {
		if q, ok := firstQuestion(s, run.State.Sequence-run.Sample.Tokens); ok && len(a.questions) < asked && !slices.ContainsFunc(a.questions, func(o question) bool {
			return slices.Equal(o.prompt, q.prompt)
		}) {
			a.questions = append(a.questions, q)
		}
	}
	a.sample, a.tokens = run.Sample, run.Tokenizer
	if len(a.questions) > 0 { // the run's own samples go on from one too
		run.Sample.Prompt = said(a.tokens, nil, a.questions[0].prompt)
	}
	run.Hooks = append(run.Hooks, train.HookFunc(func(ctx context.Context, e train.Event) error {
		switch {
		case e.Kind == train.Started && e.Step == 0:
			return a.put(ctx, before, e.State)
		case e.Kind != train.Ended || e.Err != nil || e.State == nil:
		case e.BestStep > 0 && e.BestStep != e.Step:
			a.best = true
		default:
			return a.put(ctx, after, e.State)
		}
		return nil
	}))
	return nil
}

// firstQuestion is what stands before the first answer of a document, at most so many tokens.
func firstQuestion(s data.Shown, most int) (question, bool) {
	from := slices.Index(s.Learned, true)
	if from < 2 || from > max(most, 1) || s.Left > 0 { // a text, or no room for an answer
		return question{}, false
	}
	to := from
	for to < len(s.Learned) && s.Learned[to] {
		to++
	}
	return question{s.Tokens[:from], s.Tokens[from:to]}, true
}

// put writes the questions with the answers of a model, beside those of the conversations.
func (a *asker) put(ctx context.Context, when string, m train.Decoder) error {
	for _, q := range a.questions {
		c, t := a.sample, a.tokens
		c.Stop = append(slices.Clone(c.Stop), q.answer[len(q.answer)-1]) // what ends the turn
		var answer []int32
		if err := train.GenerateTokens(ctx, c, q.prompt, m, func(token int32) bool {
			answer = append(answer, token)
			return true
		}); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.out, "%s\n  question  %s\n  answer    %s\n  held out  %s\n", when, said(t, nil, q.prompt), said(t, q.prompt, answer), said(t, q.prompt, q.answer)); err != nil {
			return err
		}
	}
	return nil
}

// said is the text of tokens after others, on one line.
func said(t train.Tokenizer, after, tokens []int32) string {
	s := t.Continue(after)
	var text strings.Builder
	for _, token := range tokens {
		text.WriteString(s.Next(token))
	}
	text.WriteString(s.End())
	return terminal.Text(strings.Join(strings.Fields(text.String()), " "))
}
