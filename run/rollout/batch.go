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
// is taken in for each row, its last token as a row's first step, so that all logits come from steps.
type drawing struct {
	Config
	model   Model
	paging  state.Paging
	prompts []Prompt

	waiting []*row
	rows    []*row // by their number; nil: it is free
	alive   int
	blocks  []int32 // that are free
	table   []int32
	shared  map[int]*prefix // of prompts with rows that have not ended
	queue   []entry         // to be taken in
	taken   int             // of all that were queued
	workers []Chooser
}

// entry is a token to be taken in.
type entry struct{ token, row, position int32 }

// prefix is what the rows of a prompt share.
type prefix struct {
	blocks []int32
	left   int // rows that have not ended
}

func newDrawing(c Config, m Model, prompts []Prompt) *drawing {
	p := m.Paging()
	b := &drawing{
		Config: c, model: m, paging: p, prompts: prompts, rows: make([]*row, min(c.Rows, p.Rows)), table: make([]int32, p.Rows*p.Entries),
		shared: map[int]*prefix{}, workers: make([]Chooser, min(runtime.GOMAXPROCS(0), p.Rows)),
	}
	for i := range p.Blocks {
		b.blocks = append(b.blocks, int32(p.Blocks-1-i))
	}
	for i, p := range prompts {
		for sample := range p.Samples {
			b.waiting = append(b.waiting, c.row(p, i, sample, m.Window()))
		}
	}
	for i := range b.workers {
		b.workers[i] = c.chooser()
	}
	return b
}

// draw goes on until all rows have ended.
func (b *drawing) draw(ctx context.Context, done func(*row)) error {
	for len(b.waiting)+b.alive > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := b.admit(); err != nil {
			return err
		}
		var err error
		if ready := b.ready(); b.filling(len(ready)) {
			err = b.fill(ctx)
		} else {
			err = b.step(ctx, ready, done)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// admit begins rows that wait, as long as there are a free one and blocks for the longest that it may become.
func (b *drawing) admit() error {
	for len(b.waiting) > 0 {
		at := slices.Index(b.rows, nil)
		if at < 0 {
			return nil
		}
		r, size := b.waiting[0], b.paging.Size
		prompt := b.prompts[r.Prompt].Tokens
		before := len(prompt) - 1 // its last token is the first of a step
		common := before / size
		if b.paging.Apart {
			common = 0
		}
		own, p := (before+r.most+size-1)/size-common, b.shared[r.Prompt]
		need := own
		if p == nil {
			need += common
		}
		if need > len(b.blocks) {
			if b.alive == 0 {
				return fmt.Errorf("prompt %d: %d positions, want at most the %d of all rows together", r.Prompt, before+r.most, b.paging.Blocks*size)
			}
			return nil
		}
		b.waiting, b.alive = b.waiting[1:], b.alive+1
		b.rows[at] = r
		from := common * size
		if p == nil {
			p, from = &prefix{b.block(common), b.prompts[r.Prompt].Samples}, 0
			b.shared[r.Prompt] = p
		}
		r.blocks = b.block(own)
		copy(b.table[at*b.paging.Entries:], slices.Concat(p.blocks, r.blocks))
		for i := from; i < before; i++ {
			b.queue = append(b.queue, entry{prompt[i], int32(at), int32(i)})
		}
		r.after = b.taken + len(b.queue)
	}
	return nil
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

// step draws a token of each row that is ready.
func (b *drawing) step(ctx context.Context, ready []int, done func(*row)) error {
	p := b.places(b.paging.Rows)
	for _, i := range ready {
		r := b.rows[i]
		prompt, n := b.prompts[r.Prompt].Tokens, len(r.Tokens)
		p.Rows[i], p.Positions[i], p.Tokens[i] = int32(i), int32(len(prompt)-1+n), prompt[len(prompt)-1]
		if n > 0 {
			p.Tokens[i] = r.Tokens[n-1]
		}
	}
	ended, failed := make([]bool, len(ready)), make([]error, len(ready))
	draw := b.byHost
	if b.byModel() {
		draw = b.onModel
	}
	if err := draw(ctx, p, ready, ended, failed); err != nil {
		return err
	}
	for at, i := range ready {
		r := b.rows[i]
		if failed[at] != nil {
			return r.failed(failed[at])
		}
		if ended[at] {
			b.end(i)
			done(r)
		}
	}
	return nil
}

// onModel has the model draw a token of each row that is ready.
func (b *drawing) onModel(ctx context.Context, p state.Places, ready []int, ended []bool, failed []error) error {
	p.Uniforms, p.Temperature = make([]float32, b.paging.Rows), float32(b.Temperature)
	for _, i := range ready {
		p.Uniforms[i] = b.rows[i].uniform()
	}
	tokens, logProbs, err := b.model.Draw(ctx, p)
	if err != nil {
		return err
	}
	for at, i := range ready {
		ended[at], failed[at] = b.rows[i].drawn(tokens[i], logProbs[i])
	}
	return nil
}

// byHost draws it of the logits, several rows at a time.
func (b *drawing) byHost(ctx context.Context, p state.Places, ready []int, ended []bool, failed []error) error {
	logits, err := b.model.Advance(ctx, p)
	if err != nil {
		return err
	}
	vocab := len(logits) / b.paging.Rows
	var all sync.WaitGroup
	for worker := range b.workers {
		all.Go(func() {
			for at := worker; at < len(ready); at += len(b.workers) {
				i := ready[at]
				ended[at], failed[at] = b.rows[i].next(&b.workers[worker], logits[i*vocab:][:vocab])
			}
		})
	}
	all.Wait()
	return nil
}

// end gives back what a row has.
func (b *drawing) end(i int) {
	r := b.rows[i]
	b.rows[i], b.alive, b.blocks = nil, b.alive-1, append(b.blocks, r.blocks...)
	p := b.shared[r.Prompt]
	if p.left--; p.left == 0 {
		b.blocks = append(b.blocks, p.blocks...)
		delete(b.shared, r.Prompt)
	}
}
