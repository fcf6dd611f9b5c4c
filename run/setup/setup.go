// Package setup makes of a run file what it describes: a model, an optimizer, a text, devices, and the configuration of a run. A program
// that embeds gputrain does with it what `gputrain train run.yaml` does:
//
//	cfg, err := runfile.ReadAll([]string{"run.yaml"}, os.Environ(), nil)
//	run, release, err := setup.Train(ctx, cfg, os.Stderr)
//	defer release()
//	run.Dir = "runs/mine"
//	result, err := train.Run(ctx, dev, run)
//
// Adapters, DeviceOptions and OpenStages open the devices that the run file names. For a model in stages, Units and Cut divide it, and
// Pipeline is what train.Pipelined takes. Where the stages are on several ranks, Divide, RankAdapters and OpenOnRanks do the same, on all of them. Anything may be
// changed before the run begins: hooks, the output, a model of the caller's own.
package setup

import (
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// A UsageError is a mistake in the run file, or in what it names.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e *UsageError) Unwrap() error { return e.Err }

// Is says that it is one.
func (e *UsageError) Is(target error) bool { return target == train.ErrUsage }

// A ModelError is a model directory that cannot be read.
type ModelError struct{ Err error }

func (e *ModelError) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *ModelError) Unwrap() error { return e.Err }

// Is says that it is a checkpoint that cannot be read.
func (e *ModelError) Is(target error) bool { return target == checkpoint.Err }
