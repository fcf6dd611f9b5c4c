// Package reward says how good completions are: functions that need no code, commands that read JSON lines and answer numbers, and functions
// of a program that embeds this one.
//
// A command has the rights of the user. [OpenAll] starts none unless [Env.AllowCommand] is set: the user typed it.
package reward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// A Sample is one completion as reward functions see it.
type Sample struct {
	ID           int64  // number of the row, from 1 on, for errors and commands
	Prompt       string // texts, special tokens left out
	Completion   string
	PromptTokens []int32 // nil where the caller has texts alone
	Tokens       []int32 // of the completion, the one that ended it among them
	Truncated    bool    // cut before its end
	Columns      map[string]any
}

// A Function answers a number for each sample, in their order; NaN: no answer.
type Function interface {
	Rewards(ctx context.Context, samples []Sample) ([]float64, error)
}

// Func is a Function of a program that embeds this one.
type Func func(ctx context.Context, samples []Sample) ([]float64, error)

// Rewards calls it.
func (f Func) Rewards(ctx context.Context, samples []Sample) ([]float64, error) {
	return f(ctx, samples)
}

// A Reward is a function of a run.
type Reward struct {
	Name     string
	Weight   float64 // in the sum of all
	Function Function
}

// Rewards are the rewards of a run.
type Rewards []Reward

// OpenAll opens the rewards of a run file, each with a name of its own. Close ends what they have started.
func OpenAll(specs []Spec, env Env) (all Rewards, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
			all = nil
		}
	}()
	if err := Check(specs, env); err != nil {
		return nil, err
	}
	for i, s := range specs {
		f, err := open(s, env)
		if err != nil {
			return all, fmt.Errorf("rewards[%d]: %w", i, err)
		}
		all = append(all, Reward{s.Called(), or(s.Weight, 1), f})
	}
	return all, nil
}

// most bounds rewards: advantages square their sums.
const most = 1e30

// Of are the answers of each reward, in order. An answer beyond most, or another number of answers than of samples, is an error.
func (r Rewards) Of(ctx context.Context, samples []Sample) (answers [][]float64, err error) {
	for _, one := range r {
		a, err := one.Function.Rewards(ctx, samples)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reward %q: %w", one.Name, err)
		case len(a) != len(samples):
			return nil, fmt.Errorf("reward %q: found %d answers, wanted %d, one a row", one.Name, len(a), len(samples))
		}
		for i, v := range a {
			if math.Abs(v) > most || math.Abs(v*one.Weight) > most {
				return nil, fmt.Errorf("reward %q: row %d: found %v with the weight %v, wanted at most %v, also of both multiplied", one.Name, samples[i].ID, v, one.Weight, most)
			}
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// Timeouts counts how often commands were stopped at their limits of time so far.
func (r Rewards) Timeouts() (n int64) {
	for _, one := range r {
		if f, ok := one.Function.(interface{ Timeouts() int64 }); ok {
			n += f.Timeouts()
		}
	}
	return n
}

// Close ends commands and models.
func (r Rewards) Close() (err error) {
	for _, one := range r {
		if c, ok := one.Function.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// or is a number that may be left out.
func or(v *float64, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return *v
}
