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

// ask makes a run put held-out questions to its model, before the first step and after the last.
func ask(run *train.Config, out io.Writer) error {
	if run.Tokenizer == nil || run.Validation == nil || run.Sample.Tokens == 0 {
		return nil
	}
	held, err := (&data.Corpus{Validation: run.Validation}).Held(50, run.State.Sequence)
	if err != nil {
		return err
	}
	var questions []question
	for _, s := range held {
		if q, ok := firstQuestion(s, run.State.Sequence-run.Sample.Tokens); ok && len(questions) < asked && !slices.ContainsFunc(questions, func(o question) bool {
			return slices.Equal(o.prompt, q.prompt)
		}) {
			questions = append(questions, q)
		}
	}
	sample, tokens := run.Sample, run.Tokenizer
	if len(questions) > 0 { // the run's own samples go on from one too
		run.Sample.Prompt = said(tokens, nil, questions[0].prompt)
	}
	run.Hooks = append(run.Hooks, train.HookFunc(func(ctx context.Context, e train.Event) error {
		switch {
		case e.Kind == train.Started && e.Step == 0:
			return put(ctx, out, "before tuning", questions, sample, tokens, e.State)
		case e.Kind == train.Ended && e.Err == nil && e.State != nil:
			return put(ctx, out, "after tuning", questions, sample, tokens, e.State)
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

// put writes questions with the answers of a model, beside those of the conversations.
func put(ctx context.Context, out io.Writer, when string, questions []question, c train.SampleConfig, t train.Tokenizer, m train.Decoder) error {
	for _, q := range questions {
		c := c
		c.Stop = append(slices.Clone(c.Stop), q.answer[len(q.answer)-1]) // what ends the turn
		var answer []int32
		if err := train.GenerateTokens(ctx, c, q.prompt, m, func(token int32) bool {
			answer = append(answer, token)
			return true
		}); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n  question  %s\n  answer    %s\n  held out  %s\n", when, said(t, nil, q.prompt), said(t, q.prompt, answer), said(t, q.prompt, q.answer)); err != nil {
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
