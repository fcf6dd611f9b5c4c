package train

import (
	"context"
	"slices"

	"gputrain/run/rollout"
)

// A Question is what a model is to go on with, by an answer of at most so many tokens up to one of Stop or of the sampling's.
type Question struct {
	Prompt []int32
	Tokens int
	Stop   []int32
}

// An Answer is the text that it has written, without the token that ends it.
type Answer struct {
	Text  string
	Drawn int   // tokens
	Ended bool  // by itself
	Err   error // why there is none of this question, while there are of others
}

// Answers has a model answer questions, as many at once as it has rows, and tells the answers in the order of questions. It never draws a row of the model that is
// no token. Random numbers are a function of the seed, the question's number and the token's alone.
func Answers(ctx context.Context, c SampleConfig, t Tokenizer, m rollout.Model, questions []Question, tell func(i int, a Answer) error) error {
	requests := make([]rollout.Request, len(questions))
	for i, q := range questions {
		requests[i] = rollout.Request{
			Prompt: q.Prompt, Tokens: q.Tokens, Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP, MinP: c.MinP, Penalty: c.RepetitionPenalty,
			Stop: slices.Concat(c.Stop, q.Stop), Seed: c.Seed, Number: uint64(i),
		}
	}
	return rollout.Each(ctx, m, t.Size(), requests, func(i int, found rollout.Completion, err error) error {
		a := Answer{Drawn: len(found.Tokens), Ended: !found.Truncated, Err: err}
		if n := a.Drawn - 1; a.Ended && err == nil {
			found.Tokens = found.Tokens[:n]
		}
		a.Text = TextOf(t, questions[i].Prompt, found.Tokens)
		return tell(i, a)
	})
}
