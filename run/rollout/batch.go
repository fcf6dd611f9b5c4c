package rollout

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"gputrain/state"
)

// A drawing draws rows side by side. The keys and values of a row are in blocks, which its entries of the table list in the order of its positions: those that
// its prompt fills but for the last token are the prompt's, taken in once and never written again, and the others are its own. What is left of the prompt
// is taken in for each row, its last token as a row's first step, so that all logits come from steps. A model that continues one text has one row and no blocks.
type drawing struct {
	model  Model
	paging state.Paging
	done   func(r *row, err error) error // of a row that has ended; an error ends all
	turns  bool                          // passes that take in prompts and steps take turns

	waiting []*row
	rows    []*row // by their number; nil: it is free
	alive   int
	blocks  []int32 // that are free
	table   []int32
	queue   []entry // to be taken in
	taken   int     // of all that were queued
	filled  bool    // by the last pass
	workers []Chooser
}

// entry is a token to be taken in; of no row: -1.
type entry struct{ token, row, position int32 }

// prefix is what the rows of a prompt share.
type prefix struct {
	begun  bool
	blocks []int32
	left   int // rows that have not ended
}

func newDrawing(m Model, rows int) *drawing {
	p := m.Paging()
	rows = min(rows, max(p.Rows, 1))
	b := &drawing{model: m, paging: p, rows: make([]*row, rows), table: make([]int32, p.Rows*p.Entries), workers: make([]Chooser, min(runtime.GOMAXPROCS(0), rows))}
	for i := range p.Blocks {
		b.blocks = append(b.blocks, int32(p.Blocks-1-i))
	}
	return b
}

// goOn makes a pass, unless ctx is over: it begins rows, and takes in tokens of prompts or draws a token of each row.
func (b *drawing) goOn(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := b.admit(); err != nil {
		return err
	}
	ready := b.ready()
	if b.filled = b.filling(len(ready)); b.filled {
		return b.fill(ctx)
	}
	return b.step(ctx, ready)
}

// admit begins rows that wait, as long as there are a free one and blocks for the longest that it may become.
func (b *drawing) admit() error {
	for len(b.waiting) > 0 {
		at := slices.Index(b.rows, nil)
		if at < 0 {
			return nil
		}
		r, p := b.waiting[0], b.waiting[0].shared
		before := len(r.prompt) - 1 // its last token is the first of a step
		common, own := r.needs(b.paging)
		need := own
		if !p.begun {
			need += common
		}
		if need > len(b.blocks) {
			if b.alive == 0 {
				return fmt.Errorf("prompt %d: %w", r.Prompt, r.tooLong(b.paging))
			}
			return nil
		}
		b.waiting[0] = nil
		b.waiting, b.alive = b.waiting[1:], b.alive+1
		b.rows[at] = r
		if b.paging.Rows == 0 {
			continue
		}
		from := common * b.paging.Size
		if !p.begun {
			p.begun, p.blocks, from = true, b.block(common), 0
		}
		r.blocks = b.block(own)
		copy(b.table[at*b.paging.Entries:], slices.Concat(p.blocks, r.blocks))
		for i := from; i < before; i++ {
			b.queue = append(b.queue, entry{r.prompt[i], int32(at), int32(i)})
		}
		r.after = b.taken + len(b.queue)
	}
	return nil
}

// needs are the blocks of the longest that a row may become: those that rows of its prompt share, and its own.
func (r *row) needs(p state.Paging) (common, own int) {
	if p.Rows == 0 {
		return 0, 0
	}
	before := len(r.prompt) - 1
	if !p.Apart {
		common = before / p.Size
	}
	return common, (before+r.most+p.Size-1)/p.Size - common
}

func (r *row) tooLong(p state.Paging) error {
	return fmt.Errorf("%d positions, want at most the %d of all rows together", len(r.prompt)-1+r.most, p.Blocks*p.Size)
}

// block takes n blocks.
func (b *drawing) block(n int) []int32 {
	at := len(b.blocks) - n
	out := slices.Clone(b.blocks[at:])
	b.blocks = b.blocks[:at]
	return out
}

// ready are the numbers of the rows whose prompt is taken in.
func (b *drawing) ready() (out []int) {
	for i, r := range b.rows {
		if r != nil && r.after <= b.taken {
			out = append(out, i)
		}
	}
	return out
}

// filling tells whether tokens of prompts are taken in next. Those of a few rows wait for more, while others go on.
func (b *drawing) filling(ready int) bool {
	if b.turns {
		return len(b.queue) > 0 && !(b.filled && ready > 0)
	}
	few := len(b.queue) < b.paging.Fill && len(b.waiting) > 0 && 4*ready >= 3*len(b.rows)
	return len(b.queue) > 0 && !few
}

func (b *drawing) fill(ctx context.Context) error {
	some := b.queue[:min(len(b.queue), b.paging.Fill)]
	p := b.places(b.paging.Fill)
	for i, e := range some {
		p.Tokens[i], p.Rows[i], p.Positions[i] = e.token, e.row, e.position
	}
	b.queue, b.taken = b.queue[len(some):], b.taken+len(some)
	return b.model.Fill(ctx, p)
}

// places are n places that nothing is in.
func (b *drawing) places(n int) state.Places {
	p := state.Places{Tokens: make([]int32, n), Rows: make([]int32, n), Positions: make([]int32, n), Table: b.table}
	for i := range p.Rows {
		p.Rows[i] = -1
	}
	return p
}

// step draws a token of each row that is ready: by the model or by the host, as the settings of the row ask for.
func (b *drawing) step(ctx context.Context, ready []int) error {
	if b.paging.Rows == 0 {
		return b.one(ctx)
	}
	var byModel, byHost []int
	for _, i := range ready {
		if b.rows[i].byModel() {
			byModel = append(byModel, i)
		} else {
			byHost = append(byHost, i)
		}
	}
	if len(byModel) > 0 {
		if err := b.onModel(ctx, byModel); err != nil {
			return err
		}
	}
	if len(byHost) > 0 {
		return b.onHost(ctx, byHost)
	}
	return nil
}

// one is a step of a model that continues one text.
func (b *drawing) one(ctx context.Context) error {
	r, logits, err := b.rows[0], []float32(nil), error(nil)
	if n := len(r.Tokens); n == 0 {
		logits, err = b.model.Logits(ctx, r.prompt)
	} else {
		logits, err = b.model.Decode(ctx, r.Tokens[n-1])
	}
	if err != nil {
		return err
	}
	return b.drawn(0)(r.next(&b.workers[0], logits))
}

// last are the places of the last token of rows.
func (b *drawing) last(rows []int) state.Places {
	p := b.places(b.paging.Rows)
	for _, i := range rows {
		r := b.rows[i]
		n := len(r.Tokens)
		p.Rows[i], p.Positions[i], p.Tokens[i] = int32(i), int32(len(r.prompt)-1+n), r.prompt[len(r.prompt)-1]
		if n > 0 {
			p.Tokens[i] = r.Tokens[n-1]
		}
	}
	return p
}

// onModel has the model draw a token of rows.
func (b *drawing) onModel(ctx context.Context, rows []int) error {
	p := b.last(rows)
	p.Uniforms, p.Temperatures = make([]float32, b.paging.Rows), make([]float32, b.paging.Rows)
	for _, i := range rows {
		p.Uniforms[i], p.Temperatures[i] = b.rows[i].uniform(), float32(b.rows[i].of.Temperature)
	}
	tokens, logProbs, err := b.model.Draw(ctx, p)
	if err != nil {
		return err
	}
	for _, i := range rows {
		if err := b.drawn(i)(b.rows[i].drawn(tokens[i], logProbs[i])); err != nil {
			return err
		}
	}
	return nil
}

// onHost draws it of the logits, several rows at a time.
func (b *drawing) onHost(ctx context.Context, rows []int) error {
	logits, err := b.model.Advance(ctx, b.last(rows))
	if err != nil {
		return err
	}
	ended, failed, vocab := make([]bool, len(rows)), make([]error, len(rows)), len(logits)/b.paging.Rows
	var all sync.WaitGroup
	for worker := range b.workers {
		all.Go(func() {
			for at := worker; at < len(rows); at += len(b.workers) {
				i := rows[at]
				ended[at], failed[at] = b.rows[i].next(&b.workers[worker], logits[i*vocab:][:vocab])
			}
		})
	}
	all.Wait()
	for at, i := range rows {
		if err := b.drawn(i)(ended[at], failed[at]); err != nil {
			return err
		}
	}
	return nil
}

// drawn ends a row where its token was the last one, or failed.
func (b *drawing) drawn(i int) func(ended bool, err error) error {
	return func(ended bool, err error) error {
		if !ended && err == nil {
			return nil
		}
		r := b.rows[i]
		b.end(i)
		return b.done(r, err)
	}
}

// end gives back what a row has.
func (b *drawing) end(i int) {
	r := b.rows[i]
	b.rows[i], b.alive, b.blocks = nil, b.alive-1, append(b.blocks, r.blocks...)
	if r.shared.left--; r.shared.left == 0 {
		b.blocks = append(b.blocks, r.shared.blocks...)
	}
	for at := range b.queue { // of one that was left
		if b.queue[at].row == int32(i) {
			b.queue[at].row = -1
		}
	}
}
