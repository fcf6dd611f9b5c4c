package train

import (
	"fmt"

	"gputrain/model"
	"gputrain/run/data"
)

// checkMismatched refuses a run whose objective reads completions after prompts of other rows (model.Ahead), where something will be missing for it: any two rows
// may come together.
func (c *Config) checkMismatched() error {
	o := c.State.Objective
	a := o.Row().Ahead
	switch {
	case a == nil || !a.Mismatched:
		return nil
	case c.readsReference():
		return fmt.Errorf("train: found %s of a network without a reference, wanted one with it (model.WithReference): it reads completions after prompts of "+
			"other rows, whose log-probabilities no file has", o.Loss)
	}
	for _, part := range []struct {
		name   string
		source data.Source
		used   bool
	}{{"training", c.Train, true}, {"validation", c.Validation, c.evaluates()}} {
		if !part.used {
			continue
		}
		if err := c.fitMismatched(*a, part.source); err != nil {
			return fmt.Errorf("train: preference.loss %s: %s rows: %w", o.Loss, part.name, err)
		}
	}
	return nil
}

// fitMismatched compares the longest prompts with the longest completions of other rows.
func (c *Config) fitMismatched(a model.Ahead, source data.Source) error {
	e, err := data.NewEvaluation(source, c.State.Sequence, 64, 0)
	if err != nil {
		return err
	}
	type length struct{ row, tokens int }
	var longest [2][2]length // of prompts and of completions
	row := 0
	for i := range e.Batches() {
		b, err := e.Batch(i)
		if err != nil {
			return err
		}
		for _, lengths := range a.Lengths(model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows}) {
			row++
			for part, tokens := range lengths {
				of := &longest[part]
				if tokens > of[0].tokens {
					of[0], of[1] = length{row, tokens}, of[0]
				} else if tokens > of[1].tokens {
					of[1] = length{row, tokens}
				}
			}
		}
	}
	for _, prompt := range longest[0] {
		for _, completion := range longest[1] {
			if n := prompt.tokens + completion.tokens; n > c.State.Sequence+1 && prompt.row != completion.row {
				return fmt.Errorf("found a prompt of %d tokens (row %d) and a completion of %d (row %d), which come together where these rows do, "+
					"wanted at most %d in all: a window (model.context) and one token more", prompt.tokens, prompt.row, completion.tokens, completion.row, c.State.Sequence+1)
			}
		}
	}
	return nil
}
