package data

import "fmt"

// Evaluation walks over a source once: windows side by side, in order; what is missing to a full window or batch has token 0 and label
// [Ignored]. The sum of the batches' counts is the number of labels of the source, for a text its tokens but one, whatever the batch size.
// Batches are a pure function of their index.
type Evaluation struct {
	shelf   Shelf
	context int
	batch   int
	used    int64 // windows read, evenly spaced
	first   int   // the batch of the whole that is batch 0
	batches int
	group   int64 // windows that stay together
	lay     func(first int, b Batch) (Batch, error)
}

// Whole is the evaluation that this one is a part of, or itself.
func (e *Evaluation) Whole() *Evaluation {
	whole := *e
	whole.first, whole.batches = 0, int((e.used+int64(e.batch)-1)/int64(e.batch))
	return &whole
}

// Laid is the evaluation with what lay makes of each batch, whose first row is so far from that of the whole.
func (e *Evaluation) Laid(lay func(first int, b Batch) (Batch, error)) *Evaluation {
	laid := *e
	laid.lay = lay
	return &laid
}

// NewEvaluation evaluates a source in batches of batch windows of context tokens. When limit is above 0 and the source has more windows,
// limit of them, evenly spaced, stand for the whole.
func NewEvaluation(source Source, context, batch, limit int) (*Evaluation, error) {
	if context < 1 || batch < 1 || limit < 0 {
		return nil, fmt.Errorf("data: evaluation: context %d, batch %d, limit %d: want at least 1, 1, 0", context, batch, limit)
	}
	if source == nil {
		return nil, fmt.Errorf("data: evaluation: source: %w", errNone)
	}
	shelf, err := source.Shelf(context)
	if err != nil {
		return nil, fmt.Errorf("data: evaluation: %w", err)
	}
	e := &Evaluation{shelf: shelf, context: context, batch: batch, used: shelf.Windows(), group: 1}
	if limit > 0 {
		e.used = min(e.used, int64(limit))
	}
	if g, ok := shelf.(interface{ Group() int }); ok && g.Group() > 1 {
		e.group = int64(g.Group())
		e.used = max(e.group, e.used/e.group*e.group)
	}
	e.batches = int((e.used + int64(batch) - 1) / int64(batch))
	return e, nil
}

// window is which of the whole is the one at i.
func (e *Evaluation) window(i int64) int64 {
	n, used := uint64(e.shelf.Windows()/e.group), uint64(e.used/e.group)
	return int64(inGroups(uint64(i), uint64(e.group), func(group uint64) uint64 { return group * n / used }))
}

// Windows is the number of windows of the whole that are read.
func (e *Evaluation) Windows() int64 { return e.used }

// Batches is the number of batches.
func (e *Evaluation) Batches() int { return e.batches }

// Part is the evaluation of n of the batches, which may be none, from batch first on. Nothing of the others is read.
func (e *Evaluation) Part(first, n int) (*Evaluation, error) {
	if first < 0 || n < 0 || first+n > e.batches {
		return nil, fmt.Errorf("data: evaluation: part: batches [%d, %d): outside of [0, %d)", first, first+n, e.batches)
	}
	part := *e
	part.first, part.batches = e.first+first, n
	return &part, nil
}

// Batch returns batch i, 0 <= i < Batches(). Its State is zero.
func (e *Evaluation) Batch(i int) (Batch, error) {
	if i < 0 || i >= e.Batches() {
		return Batch{}, fmt.Errorf("data: evaluation: batch %d: outside of [0, %d)", i, e.Batches())
	}
	b := newBatch(e.batch, e.context)
	for row := range e.batch {
		w := int64(e.first+i)*int64(e.batch) + int64(row)
		if w >= e.used {
			break
		}
		if err := e.shelf.Fill(&b, row, e.window(w)); err != nil {
			return Batch{}, fmt.Errorf("data: evaluation: batch %d: %w", i, err)
		}
	}
	if e.lay != nil {
		return e.lay((e.first+i)*e.batch, b)
	}
	return b, nil
}
