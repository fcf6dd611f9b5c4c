package runfile

import (
	"fmt"
	"iter"
	"reflect"
	"slices"

	"gputrain/run/reward"
)

// typed is the origin of a value that the user types.
const typed = Origin("--set")

// rewards yields the rewards of the run, each with its key and its place in a list there.
func (c *Config) rewards() iter.Seq2[string, reward.Spec] {
	return func(yield func(string, reward.Spec) bool) {
		for _, f := range fields {
			if f.typ != reflect.TypeFor[[]reward.Spec]() {
				continue
			}
			for i, s := range c.value(f).([]reward.Spec) {
				if !yield(fmt.Sprintf("%s[%d]", f.key, i), s) {
					return
				}
			}
		}
	}
}

// CommandsTyped tells whether the user typed the rewards of the run, by --set, so that their commands may start: not a file, which may come from
// anybody, a run's own directory too, nor the environment. What a command line allows besides is for --allow-command.
func (c *Config) CommandsTyped() bool {
	return !slices.ContainsFunc(fields, func(f field) bool {
		return f.typ == reflect.TypeFor[[]reward.Spec]() && c.Origin(f.key) != typed
	})
}

// validateRewards checks the fields of each reward together.
func (c *Config) validateRewards() error {
	for at, s := range c.rewards() {
		if err := s.Validate(); err != nil {
			return c.Wrong(at, err)
		}
	}
	return nil
}
