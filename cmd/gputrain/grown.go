package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// grown adds to the error of a run that began with other texts how to go on with these from what it has learned; again is the command, which may be nil, that
// goes on from the run in another directory.
func grown(err error, run train.Config, cfg *runfile.Config, dir string, again func(next string) string) error {
	var changed *train.ChangedError
	if !errors.As(err, &changed) || changed.Earlier {
		return err
	}
	found, lost := setup.Checkpoints(dir).Newest()
	if lost != nil || found.Path == "" {
		return err
	}
	record, lost := checkpoint.ReadRecord(checkpoint.OS, found.Path)
	if lost != nil || record.Run.Fingerprint == run.Fingerprint || record.Run.Fingerprint == run.Earlier.Fingerprint {
		return err
	}
	key := "model.from"
	if cfg.LoRA.On() {
		key = "lora.from"
	}
	set, next := key+"="+dir, nextDir(dir)
	how := fmt.Sprintf("the same command with --set %s --run-dir %s", shellWord(set), shellWord(next))
	if again != nil {
		how = again(next)
	}
	return fmt.Errorf("%w; the run has learned other texts: to go on with these from what it has learned: %s", err, how)
}

// nextDir is a directory beside a run that is not there yet.
func nextDir(dir string) string {
	for n := 2; ; n++ {
		next := fmt.Sprintf("%s-%d", dir, n)
		if _, err := os.Lstat(next); err != nil {
			return next
		}
	}
}

// again is the command for another run directory, which goes on from the adapters of this one: these have settings of their own.
func (c *tuneCmd) again(next string) string {
	words := []string{"gputrain", "tune", "--from", shellWord(c.RunDir)}
	for _, file := range c.Data {
		words = append(words, shellWord(file))
	}
	flag := func(name string, values ...string) {
		for _, v := range values {
			if v != "" {
				words = append(words, name, shellWord(v))
			}
		}
	}
	if c.holds {
		flag("--held", c.Held...)
	}
	flag("--method", c.Method)
	flag("--reward", c.Reward...)
	flag("--set", slices.DeleteFunc(slices.Clone(c.Set), func(s string) bool {
		key, _, _ := strings.Cut(s, "=")
		return key == "model.from" || key == "rewards" && len(c.Reward) > 0 || strings.HasPrefix(key, "lora.") && key != "lora.b_rate"
	})...)
	flag("--ask", c.Ask...)
	flag("--system", c.System)
	flag("--adapter", c.Adapter)
	return strings.Join(append(words, "--run-dir", shellWord(next)), " ")
}
