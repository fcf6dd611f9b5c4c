package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/setup"
	"gputrain/run/train"
)

// askedRow is an answer that a row has, and the question for it.
type askedRow struct {
	train.Question
	answer []int32
	line   int  // its place among the lines
	ends   bool // the answer ends in a token that ends it
}

// beyond is how many tokens a model's answer may be longer than that of a row, before it is cut: it is wrong by then.
const beyond = 16

// answers has the model answer what rows ask by its likeliest tokens, and counts the answers that are those of the rows, to the end. With --json each is told.
func (c *evalCmd) answers(ctx context.Context, m *openedModel, rows *texts.Documents, window int) (right, all int, err error) {
	var lines ownWindows
	var asked []askedRow
	read := 0
	if _, err := rows.Lines(window, func(l texts.Line) error {
		if read += len(l.Tokens); c.Limit == 0 || read <= c.Limit {
			asked = append(asked, c.askedBy(l, len(lines), window)...)
			lines = append(lines, l)
		}
		return nil
	}); err != nil || len(asked) == 0 {
		return 0, 0, err
	}
	var losses []*float64
	if c.JSON {
		if losses, err = lines.losses(ctx, m, window); err != nil {
			return 0, 0, err
		}
	}
	if err := m.Narrow(model.Window(m.Definition(), window)); err != nil {
		return 0, 0, err
	}
	if err := m.Widen(min(len(asked), atOnce)); err != nil {
		return 0, 0, err
	}
	questions := make([]train.Question, len(asked))
	for i, a := range asked {
		questions[i] = a.Question
	}
	text, out := c.tokens.Text(), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	err = train.Answers(ctx, train.SampleConfig{}, text, m, questions, func(i int, found train.Answer) error {
		a := asked[i]
		wanted := a.answer
		if a.ends {
			wanted = wanted[:len(wanted)-1]
		}
		said := train.TextOf(text, a.Prompt, wanted)
		exact := found.Err == nil && found.Text == said && (found.Ended || !a.ends || a.Tokens < len(a.answer)) // the window may have no room for the end
		if exact {
			right++
		}
		if !c.JSON {
			return found.Err
		}
		return errors.Join(found.Err, out.Encode(struct {
			Row      int64    `json:"row"`
			Question string   `json:"question"`
			Wanted   string   `json:"wanted"`
			Answer   string   `json:"answer"`
			Exact    bool     `json:"exact"`
			Loss     *float64 `json:"loss"`
		}{lines[a.line].Number + 1, setup.Spoken(text, a.Prompt), said, found.Text, exact, losses[a.line]}))
	})
	return right, len(asked), err
}

// askedBy are the answers of a row behind something that is not learned.
func (c *evalCmd) askedBy(l texts.Line, at, window int) (all []askedRow) {
	for from := 0; from < len(l.Labels); from++ {
		if l.Labels[from] == data.Ignored {
			continue
		}
		to := from
		for to < len(l.Labels) && l.Labels[to] != data.Ignored {
			to++
		}
		a := askedRow{answer: l.Labels[from:to], line: at}
		a.Prompt, a.Tokens = l.Tokens[:from+1], len(a.answer)
		if last := a.answer[len(a.answer)-1]; c.tokens.Closes(last) {
			a.ends, a.Stop, a.Tokens = true, []int32{last}, a.Tokens+beyond
		}
		if a.Tokens = min(a.Tokens, window-len(a.Prompt)); from > 0 && a.Tokens > 0 {
			all = append(all, a)
		}
		from = to
	}
	return all
}

// ownWindows are rows, each in a window of its own.
type ownWindows []texts.Line

func (w ownWindows) Vocab() int { return 0 }
func (w ownWindows) Walk(int, uint64) (data.Walk, error) {
	return nil, errors.New("rows are not shuffled")
}
func (w ownWindows) Shelf(int) (data.Shelf, error) { return w, nil }
func (w ownWindows) Windows() int64                { return int64(len(w)) }

func (w ownWindows) Fill(b *data.Batch, row int, i int64) error {
	width := len(b.Tokens) / b.Rows
	copy(b.Tokens[row*width:(row+1)*width], w[i].Tokens)
	copy(b.Labels[row*width:(row+1)*width], w[i].Labels)
	return nil
}

// losses are those of what is learned of each row; nil: nothing is.
func (w ownWindows) losses(ctx context.Context, m *openedModel, window int) ([]*float64, error) {
	e, err := data.NewEvaluation(w, window, 1, 0)
	if err != nil {
		return nil, err
	}
	all, err := m.BatchLosses(ctx, e)
	if err != nil {
		return nil, err
	}
	out := make([]*float64, len(w))
	for i, l := range all {
		if l.Tokens > 0 {
			out[i] = new(float64(l.Sum) / float64(l.Tokens))
		}
	}
	return out, nil
}
