package data

import "fmt"

// A Prompt is what completions are drawn behind.
type Prompt struct {
	Row     int64 // which of all rows of the files it is
	Tokens  []int32
	Columns map[string]any // of the row, for whoever says how good completions are
}

// Prompts are the prompts of a run, a Source whose windows have no labels.
type Prompts struct {
	all   []Prompt
	vocab int
}

var _ Source = (*Prompts)(nil)

// NewPrompts are prompts of tokens below a vocabulary.
func NewPrompts(vocab int, all []Prompt) *Prompts { return &Prompts{all, vocab} }

// Vocab is one more than the largest token id that can come.
func (p *Prompts) Vocab() int { return p.vocab }

// Len is how many there are.
func (p *Prompts) Len() int { return len(p.all) }

// At is one of them.
func (p *Prompts) At(i int) Prompt { return p.all[i] }

// Spread are n of them, evenly spaced, as windows of an evaluation are.
func (p *Prompts) Spread(n int) (some []Prompt) {
	for i := range n {
		some = append(some, p.all[i*len(p.all)/n])
	}
	return some
}

// Next are the n prompts from a place of the shuffled order on, epoch after epoch as a Loader has windows, and the place behind them.
func (p *Prompts) Next(from State, n int, seed uint64) (some []Prompt, next State) {
	for range n {
		some = append(some, p.all[Shuffled(from, int64(len(p.all)), 1, seed)])
		if from.Position++; from.Position >= uint64(len(p.all)) {
			from = State{Epoch: from.Epoch + 1}
		}
	}
	return some, from
}

// Epochs is how often all have been gone through at a place.
func (p *Prompts) Epochs(at State) float64 {
	return float64(at.Epoch) + float64(at.Position)/float64(len(p.all))
}

// Walk is the shuffled order.
func (p *Prompts) Walk(_ int, seed uint64) (Walk, error) { return promptWalk{p, seed}, nil }

// Shelf is all of them.
func (p *Prompts) Shelf(int) (Shelf, error) { return promptShelf{p}, nil }

type promptWalk struct {
	*Prompts
	seed uint64
}

func (w promptWalk) Length(uint64) uint64 { return uint64(len(w.all)) }

func (w promptWalk) Fill(b *Batch, row int, s State) error {
	return w.fill(b, row, Shuffled(s, int64(len(w.all)), 1, w.seed))
}

type promptShelf struct{ *Prompts }

func (s promptShelf) Windows() int64 { return int64(len(s.all)) }

func (s promptShelf) Fill(b *Batch, row int, i int64) error { return s.fill(b, row, i) }

func (p *Prompts) fill(b *Batch, row int, i int64) error {
	if i < 0 || i >= int64(len(p.all)) {
		return fmt.Errorf("data: prompts: prompt %d: outside of [0, %d)", i, len(p.all))
	}
	tokens := p.all[i].Tokens
	b.Put(row, 0, tokens[:min(len(tokens), len(b.Tokens)/b.Rows)], nil)
	return nil
}
