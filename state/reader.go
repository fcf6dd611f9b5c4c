package state

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"gputrain/run/data"
)

// forwardPasses are a language model's forward passes, wherever the model lies.
type forwardPasses interface {
	// Losses computes the losses of all batches of an evaluation in their order and hands each out; yield returns false to end it early.
	// Between batches it looks whether ctx is over.
	Losses(ctx context.Context, e *data.Evaluation, yield func(BatchLoss) bool) error
	// Look makes a forward pass of each batch that model.Objective.Ahead reads, and gives Built.Rows of it.
	Look(ctx context.Context, feeds []Feed) ([][]float32, error)
	// Take takes a piece in, of a window or of several rows, and gives the logits of what follows.
	Take(ctx context.Context, p Piece) ([]float32, error)
}

// Reader measures the loss of texts and continues them.
type Reader struct {
	forward       forwardPasses
	vocab, window int
	held          []int32 // tokens of the window that the caches have
	paging        Paging
	recurrent     bool // see model.Recurrent
}

// pieces are those of what follows the first tokens of a window.
func (r *Reader) pieces(window []int32, first int) []Piece {
	if r.recurrent {
		return apart(window, first, prefillRows(r.window), r.window)
	}
	return pieces(window, first, prefillRows(r.window))
}

// EvalResult is a loss on a text.
type EvalResult struct {
	Loss   float64   // nats a token, the mean over all tokens that count
	Tokens int64     // model.Loss.Counts, whose mean the loss is
	Means  []float64 // of the objective's Sums, and its Maxima
}

// ErrNoLabels says that a text has no token that counts in the loss.
var ErrNoLabels = errors.New("0 tokens count in the loss")

// Evaluate computes the loss of the model on a text: the sum over all tokens that count, divided by their number, whatever the size of
// the batches. Between two batches it looks whether ctx is over.
func (r *Reader) Evaluate(ctx context.Context, e *data.Evaluation) (last EvalResult, err error) {
	for last, err = range r.Evaluations(ctx, e) {
		if err != nil {
			return EvalResult{}, err
		}
	}
	return last, nil
}

// BatchLoss is what one batch gives to an evaluation.
type BatchLoss struct {
	Sum    float32   // over what counts
	Tokens int       // model.Loss.Counts
	Sums   []float32 // of the objective
	Maxima int       // model.Loss.Maxima of Sums
	Rows   []float32 // model.Built.Rows
}

// BatchLosses are the losses of the batches of an evaluation, for MeanLoss: of a part of one, where others compute the rest.
func (r *Reader) BatchLosses(ctx context.Context, e *data.Evaluation) (losses []BatchLoss, err error) {
	err = r.losses(ctx, e, func(l BatchLoss) bool {
		losses = append(losses, l)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("state: evaluate: %w", err)
	}
	return losses, nil
}

func (r *Reader) losses(ctx context.Context, e *data.Evaluation, yield func(BatchLoss) bool) error {
	if e == nil {
		return errors.New("found no evaluation, wanted one of data.NewEvaluation")
	}
	err := r.forward.Losses(ctx, e, yield)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause // also where a compilation noticed it first
	}
	return err
}

// MeanLoss is what Evaluate gives of batches with these losses, in their order.
func MeanLoss(losses []BatchLoss) (EvalResult, error) {
	var all lossSum
	for _, l := range losses {
		all.add(l)
	}
	if all.count == 0 {
		return EvalResult{}, fmt.Errorf("state: evaluate: %w", ErrNoLabels)
	}
	return all.mean(), nil
}

// lossSum is the sum over the batches of an evaluation so far.
type lossSum struct {
	loss   float64
	count  int64
	means  []float64
	maxima int
}

func (e *lossSum) add(l BatchLoss) {
	e.loss += float64(l.Sum)
	e.count += int64(l.Tokens)
	e.means, e.maxima = addTo(e.means, l.Sums, 1, l.Maxima), l.Maxima
}

func (e *lossSum) mean() EvalResult {
	r := EvalResult{Loss: e.loss / float64(e.count), Tokens: e.count}
	for i, v := range e.means {
		if i < len(e.means)-e.maxima {
			v /= float64(e.count)
		}
		r.Means = append(r.Means, v)
	}
	return r
}

// Evaluations is Evaluate as it goes: after each batch it gives the result over all batches so far (NaN while no token counts), so that the
// last one is that of the whole text. An error comes last. Breaking out of the loop ends the evaluation; the model stays usable.
func (r *Reader) Evaluations(ctx context.Context, e *data.Evaluation) iter.Seq2[EvalResult, error] {
	return func(yield func(EvalResult, error) bool) {
		var all lossSum
		broken := false
		err := r.losses(ctx, e, func(l BatchLoss) bool {
			all.add(l)
			broken = !yield(all.mean(), nil)
			return !broken
		})
		if err == nil && all.count == 0 {
			err = ErrNoLabels
		}
		if err != nil && !broken {
			yield(EvalResult{}, fmt.Errorf("state: evaluate: %w", err))
		}
	}
}

// Window is the number of tokens that the model sees at most.
func (r *Reader) Window() int { return r.window }

// Logits gives the logits of the token that follows a window of 1 to Window tokens, with which Decode goes on.
func (r *Reader) Logits(ctx context.Context, window []int32) ([]float32, error) {
	logits, err := r.logits(context.WithoutCancel(ctx), window)
	if err != nil {
		return nil, fmt.Errorf("state: logits: %w", err)
	}
	return logits, nil
}

func (r *Reader) logits(ctx context.Context, window []int32) ([]float32, error) {
	if err := r.check(window); err != nil {
		return nil, err
	}
	return r.take(ctx, window, 0)
}

func (r *Reader) check(window []int32) error {
	if len(window) < 1 || len(window) > r.window {
		return fmt.Errorf("window: found %d tokens, wanted 1 to %d", len(window), r.window)
	}
	return KnownTokens(r.vocab, window...)
}

// take takes in what follows the first tokens of a window, which the caches have.
func (r *Reader) take(ctx context.Context, window []int32, first int) (logits []float32, err error) {
	r.held = r.held[:first]
	for _, p := range r.pieces(window, first) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if logits, err = r.forward.Take(ctx, p); err != nil {
			r.forget()
			return nil, err
		}
		r.held = append(r.held, window[len(r.held):min(len(window), int(p.positions[0])+len(p.tokens))]...)
	}
	return logits, nil
}

// Extend is Logits for a window that begins as the last one: what the caches have of its begin is not computed again. It also says how many tokens that
// are. Between pieces of the window it looks whether ctx is over. After a change of parameters other than by a step, call Logits instead.
func (r *Reader) Extend(ctx context.Context, window []int32) (logits []float32, kept int, err error) {
	for kept < min(len(r.held), len(window)-1) && r.held[kept] == window[kept] { // the last token is what the logits are of
		kept++
	}
	if r.recurrent && kept < len(r.held) { // a state does not go back
		kept = 0
	}
	if err = r.check(window); err == nil {
		logits, err = r.take(ctx, window, kept)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("state: extend: %w", err)
	}
	return logits, kept, nil
}

// ErrNoWindow says that there is nothing to go on with: Logits comes first, and anew once the parameters have changed.
var ErrNoWindow = errors.New("no window: Logits comes first")

// Decode appends a token to the window that Logits began, at the cost of that token alone, and gives the logits of the next one. A window of
// Window tokens is full, which is an error, as is ErrNoWindow. After a change of parameters other than by a step, call Logits anew.
func (r *Reader) Decode(ctx context.Context, token int32) ([]float32, error) {
	logits, err := r.decode(context.WithoutCancel(ctx), token)
	if err != nil {
		return nil, fmt.Errorf("state: decode: %w", err)
	}
	return logits, nil
}

func (r *Reader) decode(ctx context.Context, token int32) ([]float32, error) {
	switch {
	case len(r.held) == 0:
		return nil, ErrNoWindow
	case len(r.held) == r.window:
		return nil, fmt.Errorf("window: full with %d tokens", r.window)
	}
	if err := KnownTokens(r.vocab, token); err != nil {
		return nil, err
	}
	piece := oneToken(token, len(r.held))
	if r.recurrent {
		piece.places = onlyRow(r.window).places(1, 1)
	}
	logits, err := r.forward.Take(ctx, piece)
	if err == nil {
		r.held = append(r.held, token)
	}
	return logits, err
}

// KnownTokens refuses tokens that a model of that vocabulary has no embedding for.
func KnownTokens(vocab int, tokens ...int32) error {
	for i, token := range tokens {
		if token < 0 || int(token) >= vocab {
			return fmt.Errorf("token id at position %d: %d, want 0 to %d", i, token, vocab-1)
		}
	}
	return nil
}

// forget makes the next text begin with Logits: what the caches have is of other parameters.
func (r *Reader) forget() { r.held = nil }
