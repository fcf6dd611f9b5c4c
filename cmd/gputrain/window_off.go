//go:build !window

package main

import (
	"errors"
	"fmt"

	"gputrain/run/train"
)

// errNoWindow is what this build says of its missing window.
var errNoWindow = errors.New("found a gputrain that was built without windows, wanted bin/gputrain-window: `make window` builds it")

// windowFlags has no flag in this build but for the one that tells how to get
// it.
type windowFlags struct {
	Window bool `hidden:""`
}

func (f windowFlags) around(run train.Config, body func(train.Config) error) error {
	if f.Window {
		return usageError{fmt.Errorf("--window: %w", errNoWindow)}
	}
	return body(run)
}

// watchCmd tells how to get the command.
type watchCmd struct {
	Rest []string `arg:"" optional:"" passthrough:""`
}

func (c *watchCmd) Run() error { return usageError{fmt.Errorf("watch: %w", errNoWindow)} }

type windowCommands struct {
	Watch watchCmd `cmd:"" hidden:""`
}
