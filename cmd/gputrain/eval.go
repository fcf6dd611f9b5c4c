package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"gputrain/data"
	"gputrain/train/setup"
)

type evalCmd struct {
	modelFlags
	textFlags
	Batch int  `help:"Sequences at once; the loss does not depend on it." default:"8"`
	Limit int  `help:"Tokens to read at most, evenly spaced; 0 = all." default:"0"`
	JSON  bool `help:"One JSON object on standard output."`
}

func (c *evalCmd) Run(ctx context.Context) error {
	if c.Batch < 1 || c.Limit < 0 {
		return usageError{fmt.Errorf("eval: --batch %d, --limit %d: wanted 1 sequence or more, and no limit below 0", c.Batch, c.Limit)}
	}
	m, release, err := c.modelFlags.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	window := m.Definition().Context()
	text, tokens, err := c.textFlags.open(ctx, &c.modelFlags, m.Definition())
	if err != nil {
		return err
	}
	defer text.Close()
	if tokens.Vocab() > m.Definition().Vocab() {
		return usageError{fmt.Errorf("eval: text has tokens up to %d, the model %d", tokens.Vocab()-1, m.Definition().Vocab()-1)}
	}
	windows := 0
	if c.Limit > 0 {
		windows = max(1, c.Limit/window)
	}
	evaluation, err := batches(tokens, window, c.Batch, windows)
	if err != nil {
		return err
	}
	start := time.Now()
	r, err := m.Evaluate(ctx, evaluation)
	if err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{
			"eval_loss": r.Loss, "perplexity": math.Exp(r.Loss), "tokens": r.Tokens, "tokens_per_second": float64(r.Tokens) / seconds,
		})
	}
	_, err = fmt.Printf("loss %.4f nats a token, perplexity %.3f, %d tokens in %.1f s\n", r.Loss, math.Exp(r.Loss), r.Tokens, seconds)
	return err
}

// batches lays a source into batches of at most batch windows, which have to fit the machine's memory.
func batches(source data.Source, window, batch, limit int) (*data.Evaluation, error) {
	one, err := data.NewEvaluation(source, window, 1, limit)
	if err != nil {
		return nil, err
	}
	batch = int(min(int64(batch), max(1, one.Windows())))
	if err := setup.FitsMachine(fmt.Sprintf("eval: --batch: batches of %d sequences", batch), 2, batch, window); err != nil {
		return nil, err
	}
	return data.NewEvaluation(source, window, batch, limit)
}
