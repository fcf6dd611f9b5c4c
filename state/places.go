package state

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/model"
)

// Paging is how a model continues several texts at once, each in a row of its own. Keys and values are kept in Blocks of Size positions, of which a table
// lists up to Entries of a row in the order of its positions. A pass takes in Fill tokens of any rows, or one of each.
type Paging struct {
	Rows, Blocks, Size, Entries, Fill int
	Storage                           buffers.DType // of keys and values, as Config.Storage
	Apart                             bool          // rows keep states (model.Recurrent): each takes in its own beginning
}

// blockSize is small, as the last block of a row is half empty, and so many tokens of a prompt are at most taken in for each row.
const blockSize = 16

// paging is that of rows with a window and so many blocks; 0: as many as all rows need.
func paging(rows, blocks, window int, storage buffers.DType) Paging {
	if rows == 0 {
		return Paging{}
	}
	p := Paging{Rows: rows, Blocks: blocks, Size: blockSize, Entries: (window + blockSize - 1) / blockSize, Fill: mostRows, Storage: storage}
	if blocks == 0 {
		p.Blocks = rows * p.Entries
	}
	return p
}

// Paging is that of Config.Rows.
func (j Job) Paging() Paging {
	p := paging(j.Rows, j.Blocks, j.Sequence, j.Storage)
	p.Apart = j.Rows > 0 && model.Recurrent(j.Definition)
	return p
}

// ShortPool says that the pool is smaller than what all rows may need; "": it is not.
func (j Job) ShortPool() string {
	p, whole := j.Paging(), paging(j.Rows, 0, j.Sequence, j.Storage)
	if p.Blocks >= whole.Blocks {
		return ""
	}
	return fmt.Sprintf("memory has room for the keys and values of %d texts of %d tokens, of %d: fewer are continued at once where they are long", p.Blocks/p.Entries, j.Sequence, j.Rows)
}

// Places are the tokens of a pass over several texts: the row of each, -1 where a place is empty, and its position there. No two are the same.
type Places struct {
	Tokens, Rows, Positions []int32
	Table                   []int32 // [Rows, Entries], blocks
	// Uniforms are random numbers in [0, 1) by which Draw draws a token of each row, at the row's temperature: of one of 0 the likeliest token.
	Uniforms, Temperatures []float32
}

// Paging is how it continues several texts at once, with Fill and Advance; of no rows, it does not.
func (r *Reader) Paging() Paging { return r.paging }

// Fill takes in up to Paging.Fill tokens of rows. A token sees those of its row at earlier positions, be they of this pass or of ones before.
func (r *Reader) Fill(ctx context.Context, p Places) error {
	_, err := r.takePlaces(ctx, p, fillPass, r.paging.Fill)
	return err
}

// Advance takes in a token of each row, row i at place i, and gives the logits of what follows them, [Rows, vocab]. What it gives for a row depends on what that
// row has seen alone. After a change of parameters, rows begin anew.
func (r *Reader) Advance(ctx context.Context, p Places) ([]float32, error) {
	return r.takePlaces(ctx, p, advancePass, r.paging.Rows)
}

// Draw is Advance that draws a token of each row, as graph.Sample does. A log-probability is that of softmax(logits/temperature), of softmax(logits) where
// that is 0; it is not finite where logits are not.
func (r *Reader) Draw(ctx context.Context, p Places) (tokens []int32, logProbs []float32, err error) {
	drawn, err := r.takePlaces(ctx, p, drawPass, r.paging.Rows)
	for i := 0; i < len(drawn); i += 2 {
		tokens, logProbs = append(tokens, int32(drawn[i])), append(logProbs, drawn[i+1])
	}
	return tokens, logProbs, err
}

func (r *Reader) takePlaces(ctx context.Context, p Places, pass string, n int) ([]float32, error) {
	if n == 0 || len(p.Tokens) != n || len(p.Table) != r.paging.Rows*r.paging.Entries {
		return nil, fmt.Errorf("state: %s: %d tokens, a table of %d, want %d, and %d x %d", pass, len(p.Tokens), len(p.Table), n, r.paging.Rows, r.paging.Entries)
	}
	logits, err := []float32(nil), KnownTokens(r.vocab, p.Tokens...)
	if err == nil {
		logits, err = r.forward.Take(context.WithoutCancel(ctx), Piece{tokens: p.Tokens, positions: p.Positions, places: p, pass: pass})
	}
	if err != nil {
		return nil, fmt.Errorf("state: %s: %w", pass, err)
	}
	return logits, nil
}
