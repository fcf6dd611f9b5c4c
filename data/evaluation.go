package data

import "fmt"

// Evaluation walks over a text once: windows side by side, in order, the last one
// shorter; what is missing to a full window or batch has token 0 and label
// [Ignored]. The sum of the batches' counts is the number of tokens but one,
// whatever the batch size. Batches are a pure function of their index.
type Evaluation struct {
	tokens  *Tokens
	context int
	batch   int
	windows int64 // of the text
	used    int64 // of these, evenly spaced
}

// NewEvaluation evaluates tokens in batches of batch windows of context tokens. When
// limit is above 0 and the text has more windows, limit of them, evenly spaced, stand
// for the whole.
func NewEvaluation(tokens *Tokens, context, batch, limit int) (*Evaluation, error) {
	switch {
	case context < 1 || batch < 1 || limit < 0:
		return nil, fmt.Errorf("data: evaluation: context %d, batch %d, limit %d: want at least 1, 1, 0", context, batch, limit)
	case tokens.Len() < 2:
		return nil, fmt.Errorf("data: evaluation: %d tokens found, want at least 2", tokens.Len())
	}
	e := &Evaluation{tokens: tokens, context: context, batch: batch}
	e.windows = (tokens.Len() - 1 + int64(context) - 1) / int64(context)
	e.used = e.windows
	if limit > 0 {
		e.used = min(e.windows, int64(limit))
	}
	return e, nil
}

// Batches is the number of batches.
func (e *Evaluation) Batches() int {
	return int((e.used + int64(e.batch) - 1) / int64(e.batch))
}

// Batch returns batch i, 0 <= i < Batches(). Its State is zero.
func (e *Evaluation) Batch(i int) (Batch, error) {
	if i < 0 || i >= e.Batches() {
		return Batch{}, fmt.Errorf("data: evaluation: batch %d: outside of [0, %d)", i, e.Batches())
	}
	b := newBatch(e.batch, e.context)
	for row := range e.batch {
		w := int64(i)*int64(e.batch) + int64(row)
		if w >= e.used {
			break
		}
		start := w * e.windows / e.used * int64(e.context)
		n := min(int64(e.context), e.tokens.Len()-1-start)
		if err := b.fill(e.tokens, row, start, int(n)); err != nil {
			return Batch{}, fmt.Errorf("data: evaluation: batch %d: %w", i, err)
		}
	}
	return b, nil
}
