// Package rollout draws completions of prompts, many at once. What is drawn for a row is a function of its prompt, its numbers and the seed alone, whichever
// other rows are drawn with it.
package rollout

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/prng"
	"gputrain/state"
)

// Config says how completions are drawn.
type Config struct {
	Tokens      int // the most of a completion, the one that ends it among them
	Temperature float64
	TopK        int
	TopP, MinP  float64
	Penalty     float64                   // on tokens already in prompt or completion, as Said has it; 0 or 1: none
	Vocab       int                       // tokens from this one on are never drawn; 0: all of the model may be
	Stop        []int32                   // tokens that end a completion; they are part of it
	Ends        func(tokens []int32) bool // whether a completion ends with these tokens, besides; nil: none does
	Rows        int                       // completions under way at once, at most
	// A token is drawn by random numbers of (Seed, Generation, Prompt.Number, sample, position).
	Seed, Generation uint64
}

// A Prompt is what completions are drawn behind.
type Prompt struct {
	Tokens  []int32
	Number  uint64
	Samples int // completions
}

// A Completion is what was drawn. Its log-probabilities are those of softmax(logits/Temperature), of softmax(logits) where that is 0, whatever TopK, TopP,
// MinP and Vocab leave out, and without Penalty.
type Completion struct {
	Prompt, Sample int // indices
	Tokens         []int32
	LogProbs       []float32
	Truncated      bool // cut at Config.Tokens, or where the window ends, before its end
}

// Model is a language model that continues text: *state.Model and every train.State are one.
type Model interface {
	// Window is the number of tokens that the model sees at most.
	Window() int
	// Logits gives the logits of the token that follows a window of 1 to Window tokens.
	Logits(ctx context.Context, window []int32) ([]float32, error)
	// Decode appends a token to that window and gives the logits of the next one, until the window is full.
	Decode(ctx context.Context, token int32) ([]float32, error)
	// Paging is how it continues several texts at once; of no rows: it continues one after the other, by Logits and Decode.
	Paging() state.Paging
	// Fill takes in Paging.Fill tokens of any rows, Advance one of each row, and gives the logits of what follows them, [rows, vocab].
	Fill(ctx context.Context, p state.Places) error
	Advance(ctx context.Context, p state.Places) ([]float32, error)
	// Draw is Advance that draws a token of each row.
	Draw(ctx context.Context, p state.Places) (tokens []int32, logProbs []float32, err error)
}

// check refuses what nothing can be drawn for.
func (c Config) check() error {
	switch {
	case c.Tokens < 1 || c.Rows < 1:
		return fmt.Errorf("tokens %d, rows %d: want at least 1 of each", c.Tokens, c.Rows)
	case !(c.Temperature >= 0 && c.TopP >= 0 && c.TopP <= 1 && c.MinP >= 0 && c.MinP <= 1 && c.TopK >= 0 && c.Vocab >= 0 && c.Penalty >= 0):
		return fmt.Errorf("temperature %v, top-k %d, top-p %v, min-p %v, penalty %v, vocabulary %d: want none below 0, and shares up to 1",
			c.Temperature, c.TopK, c.TopP, c.MinP, c.Penalty, c.Vocab)
	}
	return nil
}

func (p Prompt) check(window int) error {
	switch n := len(p.Tokens); {
	case n < 1 || n >= window:
		return fmt.Errorf("%d tokens, want 1 to %d, so that the window of %d has room for one more", n, window-1, window)
	case p.Samples < 1:
		return fmt.Errorf("%d samples, want at least 1", p.Samples)
	}
	return nil
}

// Draw draws all samples of all prompts, in the order of prompts and samples. done, if there is one, gets each as it ends. Between tokens it looks whether
// ctx is over.
func Draw(ctx context.Context, c Config, m Model, prompts []Prompt, done func(Completion)) ([]Completion, error) {
	all, err := draw(ctx, c, m, prompts, done)
	if err != nil { // some have not ended
		return nil, fmt.Errorf("rollout: %w", err)
	}
	return all, nil
}

func draw(ctx context.Context, c Config, m Model, prompts []Prompt, done func(Completion)) ([]Completion, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b := newDrawing(m, c.Rows)
	first, n := make([]int, len(prompts)), 0 // of the completions of each prompt
	for i, p := range prompts {
		if err := p.check(m.Window()); err != nil {
			return nil, fmt.Errorf("prompt %d: %w", i, err)
		}
		first[i], n = n, n+p.Samples
		shared := &prefix{left: p.Samples}
		for sample := range p.Samples {
			r := c.row(p, i, sample, m.Window())
			r.shared = shared
			b.waiting = append(b.waiting, r)
		}
	}
	all := make([]Completion, n)
	b.done = func(r *row, err error) error {
		if err != nil {
			return fmt.Errorf("prompt %d, sample %d, token %d: %w", r.Prompt, r.Sample, len(r.Tokens), err)
		}
		if all[first[r.Prompt]+r.Sample] = r.Completion; done != nil {
			done(r.Completion)
		}
		return nil
	}
	for len(b.waiting)+b.alive > 0 {
		if err := b.goOn(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// A row is a completion under way.
type row struct {
	Completion
	of     Config
	prompt []int32
	most   int // tokens
	key    prng.Key
	said   *Said
	top    int   // so many of the likeliest tokens are told with each
	call   *call // whoever asks for it; nil: Draw

	shared *prefix
	blocks []int32 // its own, in a batch
	again  int     // how often the next token has been drawn in vain
	after  int     // so many tokens taken in, its prompt's the last of them, it goes on
}

// stream keeps the random numbers of rollouts apart from all others of a run.
const stream = 0x5a3b1f

func (c Config) row(p Prompt, prompt, sample, window int) *row {
	key := prng.NewKey(c.Seed).FoldIn(stream)
	for _, number := range []uint64{c.Seed >> 32, c.Generation, p.Number, uint64(sample)} {
		key = key.FoldIn(uint32(number)).FoldIn(uint32(number >> 32))
	}
	return &row{Completion: Completion{Prompt: prompt, Sample: sample}, of: c, prompt: p.Tokens, most: min(c.Tokens, window-len(p.Tokens)), key: key, said: NewSaid(c.Penalty, p.Tokens)}
}

// next draws a token, and tells whether it is the last one.
func (r *row) next(by *Chooser, logits []float32) (ended bool, err error) {
	drawn := logits
	if r.of.Vocab > 0 {
		drawn = logits[:min(r.of.Vocab, len(logits))]
	}
	by.Temperature, by.TopK, by.TopP, by.MinP = r.of.Temperature, r.of.TopK, r.of.TopP, r.of.MinP
	token, err := by.Choose(r.said.Penalized(drawn), r.uniform())
	if err != nil {
		return false, err
	}
	of, err := sharesOf(logits, r.of.Temperature)
	if err != nil {
		return false, err
	}
	t := Token{ID: token, LogProb: of.logProb(logits[token])}
	if r.top > 0 {
		for _, id := range Likeliest(drawn, r.top) {
			t.Top = append(t.Top, Likely{id, of.logProb(logits[id])})
		}
	}
	return r.take(t), nil
}

// uniform is the random number of the next token.
func (r *row) uniform() float32 {
	key := r.key
	if r.again > 0 {
		key = key.FoldIn(uint32(r.again))
	}
	return key.Uniform(uint64(len(r.Tokens)))
}

// inVain is how often a token may be drawn that must not be.
const inVain = 100

// drawn is next of a token that the model has drawn of all that it has. One that must not be is drawn again, which leaves the others their shares.
func (r *row) drawn(token int32, logProb float32) (ended bool, err error) {
	switch {
	case logProb-logProb != 0:
		return false, fmt.Errorf("log-probability %v: %w", logProb, ErrNotFinite)
	case r.of.Vocab == 0 || int(token) < r.of.Vocab:
		r.again = 0
		return r.take(Token{ID: token, LogProb: logProb}), nil
	case r.again == inVain:
		return false, fmt.Errorf("token %d and others drawn %d times, wanted one below %d", token, inVain, r.of.Vocab)
	}
	r.again++
	return false, nil
}

// byModel tells whether the model draws: of all tokens, by their shares alone.
func (r *row) byModel() bool {
	c := r.of
	return r.top == 0 && r.said.none() && c.TopK == 0 && (c.TopP == 0 || c.TopP == 1) && c.MinP == 0 && (c.Temperature >= 1e-3 || c.Temperature == 0 && c.Vocab == 0)
}

// take appends a token, and tells whether it is the last one.
func (r *row) take(t Token) (ended bool) {
	r.Tokens, r.LogProbs = append(r.Tokens, t.ID), append(r.LogProbs, t.LogProb)
	r.said.Add(t.ID)
	if r.call != nil {
		r.call.tell(t)
	}
	if slices.Contains(r.of.Stop, t.ID) || r.of.Ends != nil && r.of.Ends(r.Tokens) {
		return true
	}
	r.Truncated = len(r.Tokens) == r.most
	return r.Truncated
}

// shares are those of softmax(logits/temperature), of softmax(logits) where that is 0.
type shares struct{ best, temperature, logSum float64 }

func sharesOf(logits []float32, temperature float64) (s shares, err error) {
	best, err := greatest(logits)
	if err != nil {
		return s, err
	}
	s = shares{best: float64(logits[best]), temperature: temperature}
	if temperature == 0 {
		s.temperature = 1
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp((float64(l) - s.best) / s.temperature)
	}
	s.logSum = math.Log(sum)
	return s, nil
}

func (s shares) logProb(logit float32) float32 {
	return float32((float64(logit)-s.best)/s.temperature - s.logSum)
}
