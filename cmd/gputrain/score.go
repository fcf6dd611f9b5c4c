package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"gputrain/model"
	"gputrain/run/data/texts"
	"gputrain/run/runfile"
	"gputrain/run/setup"
)

type scoreCmd struct {
	modelFlags
	File    string `arg:"" help:"Rows: a JSON object a line, an array of JSON objects (both also .gz), or Parquet. A row has a text, messages, a prompt and a completion, or tokens (input_ids); a prompt, a chosen and a rejected completion; or a query, a positive and negatives." type:"path"`
	Batch   int    `help:"Sequences at once." default:"16"`
	Window  int    `help:"Tokens that the model sees at most; a longer row is an error. 0 = as many as in its run; its context, but at most 2048, for a model that is no run of gputrain." default:"0"`
	Invalid string `help:"Treatment of text that is not UTF-8: an error that says where, or U+FFFD in its place (replace); none = as in the run." placeholder:"error|replace"`
}

// headOf says what a model gives in place of logits.
func headOf(h model.Head) string {
	switch {
	case h.Kind == model.HeadVectors:
		return "vectors of rows"
	case h.Labels == 1:
		return "one score a row"
	}
	return fmt.Sprintf("scores of %d labels", h.Labels)
}

// writesText refuses a model that writes no text.
func writesText(command, path string, def model.Definition) error {
	h := model.HeadOf(def)
	if h.Kind == "" {
		return nil
	}
	return usageError{fmt.Errorf("%s: %s: found a model that has %s in place of logits, wanted one that writes text: gputrain score %s FILE gives what it says of rows", command, path, headOf(h), path)}
}

// scoredAtOnce is how many batches of rows are read before they are scored: they are sorted by length.
const scoredAtOnce = 16

func (c *scoreCmd) Run(ctx context.Context) error {
	if c.Batch < 1 || c.Window < 0 {
		return usageError{fmt.Errorf("score: --batch %d, --window %d: wanted 1 sequence or more, and no window below 0", c.Batch, c.Window)}
	}
	file, err := os.Open(c.File)
	if err != nil {
		return usageError{fmt.Errorf("score: %w", err)}
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return usageError{errors.Join(fmt.Errorf("score: %s: found no file, wanted rows", c.File), err)}
	}
	m, release, err := c.modelFlags.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	def := m.Definition()
	if model.HeadOf(def).Kind == "" {
		return usageError{fmt.Errorf("score: %s: found a language model, wanted one with scores or vectors of rows: gputrain train with head.objective makes it (docs/heads.md), and gputrain eval measures this one", c.Model)}
	}
	run, err := setup.OfRun(c.Model)
	if err != nil {
		return err
	}
	window := seen(run, def)
	if c.Window > 0 {
		window = min(c.Window, def.Context())
	}
	from, _, err := c.reads(cmp.Or(run, runfile.New()), def, window)
	if err != nil {
		return err
	}
	from.Format, from.Group = "", 0
	if c.Invalid != "" {
		from.Invalid = c.Invalid
	}
	if err := from.Validate(); err != nil {
		return usageError{err}
	}
	s := &scoring{cmd: c, m: m, out: bufio.NewWriter(os.Stdout)}
	err = texts.Inputs(ctx, from, c.File, file, info.Size(), func(number int, row json.RawMessage, inputs []texts.Input) error {
		return s.add(ctx, number, row, inputs)
	})
	switch {
	case s.failed != nil:
		err = s.failed
	case err != nil && ctx.Err() == nil:
		err = usageError{err}
	case err == nil && s.read == 0:
		err = usageError{fmt.Errorf("score: %s: found no rows, wanted one or more", c.File)}
	}
	return errors.Join(err, s.end(ctx))
}

// scoring scores rows as they come.
type scoring struct {
	cmd    *scoreCmd
	m      *openedModel
	out    *bufio.Writer
	rows   []scoredRow
	inputs [][]int32
	read   int // rows
	failed error
	padded bool // whether a row that ends in the padding was told of
}

type scoredRow struct {
	number int
	id     json.RawMessage // of the row; nil: none
	inputs []texts.Input
}

func (s *scoring) add(ctx context.Context, number int, row json.RawMessage, inputs []texts.Input) error {
	var has struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(row, &has) // an object without one
	s.read++
	s.rows = append(s.rows, scoredRow{number, has.ID, inputs})
	pad, padding := model.Padding(s.m.Definition())
	for _, in := range inputs {
		s.inputs = append(s.inputs, in.Tokens)
		if model.HeadOf(s.m.Definition()).Kind == model.HeadScores && padding && in.Tokens[len(in.Tokens)-1] == pad && !s.padded {
			s.padded = true
			say("gputrain: score: warning: row %d ends in the padding %d (pad_token_id): transformers takes its scores one token earlier\n", number, pad)
		}
	}
	if len(s.inputs) < scoredAtOnce*s.cmd.Batch {
		return nil
	}
	return s.flush(ctx)
}

func (s *scoring) flush(ctx context.Context) error {
	found, err := s.m.Scores(ctx, s.inputs, s.cmd.Batch)
	for at := 0; err == nil && len(s.rows) > 0; s.rows = s.rows[1:] {
		row := s.rows[0]
		n := len(row.inputs)
		err = s.write(row, found[at:at+n])
		at += n
	}
	s.rows, s.inputs, s.failed = nil, nil, err
	return err
}

func (s *scoring) end(ctx context.Context) error {
	if s.failed != nil || len(s.inputs) == 0 {
		return s.out.Flush()
	}
	return errors.Join(s.flush(ctx), s.out.Flush())
}

// write writes the line of a row.
func (s *scoring) write(row scoredRow, found [][]float32) error {
	line := map[string]any{"row": row.number}
	if row.id != nil {
		line["id"] = row.id
	}
	for i, values := range found {
		for _, v := range values {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return &setup.ModelError{Err: fmt.Errorf("score: row %d: found %v, wanted finite numbers: gputrain inspect says what is wrong with the model", row.number, v)}
			}
		}
		said := saidOf(s.m.Definition(), values)
		if i > 0 && said["vector"] != nil { // to the query: vectors have length 1
			near := 0.0
			for at, v := range values {
				near += float64(v) * float64(found[0][at])
			}
			said["similarity"] = near
		}
		if key := row.inputs[i].Key; key != "" {
			line[key] = said
			continue
		}
		for key, value := range said {
			line[key] = value
		}
	}
	return json.NewEncoder(s.out).Encode(line)
}

// saidOf is the answer of the head for one input: its score, its vector, or the likeliest label with the probabilities of all labels.
func saidOf(def model.Definition, values []float32) map[string]any {
	h := model.HeadOf(def)
	switch {
	case h.Kind == model.HeadVectors:
		return map[string]any{"vector": values}
	case h.Labels == 1:
		return map[string]any{"score": values[0]}
	}
	most, sum := slices.Max(values), 0.0
	for _, v := range values {
		sum += math.Exp(float64(v) - float64(most))
	}
	shares := map[string]float64{}
	for i, v := range values {
		shares[h.Label(i)] = math.Exp(float64(v)-float64(most)) / sum
	}
	best := slices.Index(values, most)
	return map[string]any{"label": h.Label(best), "probability": shares[h.Label(best)], "probabilities": shares}
}
