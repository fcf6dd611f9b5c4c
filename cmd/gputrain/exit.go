package main

import (
	"errors"
	"syscall"

	"gputrain/cmd/gputrain/launch"
	"gputrain/mesh"
	"gputrain/train"
)

// A usageError is a mistake on the command line or in the run file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Is says that it is one.
func (e usageError) Is(target error) bool { return target == train.ErrUsage }

// exitCode is the code of an error: that of another process where it has ended this one, else that of its kind.
func exitCode(err error) int {
	var code codeError
	var peer *mesh.PeerError
	var signalled *train.SignalError
	kind := train.KindOf(err)
	switch {
	case errors.As(err, &peer):
		return peer.Code
	case errors.As(err, &code):
		return int(code)
	case kind == train.KindStopped && errors.As(err, &signalled) && signalled.Signal == syscall.SIGTERM && launch.Rank(): // mpirun ends what is left of a job
		kind = train.KindRankLost
	}
	return kind.ExitCode()
}
