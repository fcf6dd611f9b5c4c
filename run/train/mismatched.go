package train

import (
	"fmt"

	"gputrain/model"
	"gputrain/run/data"
)

// checkMismatched refuses a run whose objective reads completions after prompts of other rows (model.Ahead), where something will be missing for it: any two rows
// may come together.
func (c *Config) checkMismatched() (learned Labelled, err error) {
	o := c.State.Objective
	a := o.Row().Ahead
	switch {
	case a == nil || !a.Mismatched:
		return learned, nil
	case c.readsReference():
		return learned, fmt.Errorf("train: found %s of a network without a reference, wanted one with it (model.WithReference): it reads completions after prompts of "+
			"other rows, whose log-probabilities no file has", o.Loss)
	}
	for _, part := range []struct {
		name   string
		source data.Source
		used   bool
	}{{"training", c.Train, true}, {"validation", c.Validation, c.evaluatesLoss()}} {
		if !part.used {
			continue
		}
		l, err := c.fitMismatched(part.source)
		if err != nil {
			return l, fmt.Errorf("train: preference.loss %s: %s rows: %w", o.Loss, part.name, err)
		}
		if part.name == "training" {
			learned = l
		}
	}
	return learned, nil
}

// fitMismatched compares the longest prompts with the longest completions of other rows.
func (c *Config) fitMismatched(source data.Source) (Labelled, error) {
	l, err := LabelledOf(source, c.State.Sequence)
	if err != nil {
		return l, err
	}
	if prompt, completion := l.longest(); prompt.tokens+completion.tokens > c.State.Sequence+1 {
		return l, fmt.Errorf("found a prompt of %d tokens (row %d) and a completion of %d (row %d), which come together where these rows do, "+
			"wanted at most %d in all: a window (model.context) and one token more", prompt.tokens, prompt.row, completion.tokens, completion.row, c.State.Sequence+1)
	}
	return l, nil
}

// Labelled is what is known of rows that are good or bad.
type Labelled struct {
	Good, Bad int

	lengths [2][2]length // of the two longest prompts and completions
}

// length is how many tokens something of a row has.
type length struct{ row, tokens int }

// LabelledOf reads all rows of a source, in windows of so many tokens.
func LabelledOf(source data.Source, context int) (l Labelled, err error) {
	e, err := data.NewEvaluation(source, context, 64, 0)
	if err != nil {
		return l, err
	}
	row := 0
	for i := range e.Batches() {
		b, err := e.Batch(i)
		if err != nil {
			return l, err
		}
		for at, lengths := range (model.Ahead{}).Lengths(model.Rows{Tokens: b.Tokens, Labels: b.Labels, Count: b.Rows}) {
			switch row++; {
			case lengths[1] == 0: // what is missing to a full batch
				continue
			case b.Beside[model.InputGood][at] == 1:
				l.Good++
			default:
				l.Bad++
			}
			for part, tokens := range lengths {
				of := &l.lengths[part]
				if tokens > of[0].tokens {
					of[0], of[1] = length{row, tokens}, of[0]
				} else if tokens > of[1].tokens {
					of[1] = length{row, tokens}
				}
			}
		}
	}
	return l, nil
}

// longest are the prompt and the completion of two rows that have most tokens together.
func (l Labelled) longest() (prompt, completion length) {
	for _, p := range l.lengths[0] {
		for _, c := range l.lengths[1] {
			if p.row != c.row && p.tokens+c.tokens > prompt.tokens+completion.tokens {
				prompt, completion = p, c
			}
		}
	}
	return prompt, completion
}

// Together is how many tokens a window needs for every prompt with every completion of another row.
func (l Labelled) Together() int {
	prompt, completion := l.longest()
	return max(0, prompt.tokens+completion.tokens-1)
}

// uneven warns where one class of rows weighs more than it should.
func (c *Config) uneven(l Labelled) string {
	numbers := c.State.Objective.Numbers
	if l.Good == 0 || l.Bad == 0 {
		return ""
	}
	good, bad := numbers["desirable_weight"], numbers["undesirable_weight"]
	if of := good * float64(l.Good) / (bad * float64(l.Bad)); of < 0.995 || of > 4./3+0.005 {
		return fmt.Sprintf("warning: %s: %d good rows of weight %g are %.3g times %d bad ones of weight %g, wanted 1 to 1.33 times: preference.desirable_weight and "+
			"preference.undesirable_weight balance them", c.State.Objective.Loss, l.Good, good, of, l.Bad, bad)
	}
	return ""
}
