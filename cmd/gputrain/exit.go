package main

import (
	"errors"
	"syscall"

	"gputrain/checkpoint"
	"gputrain/cluster"
	"gputrain/cmd/gputrain/launch"
	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/model"
	"gputrain/train"
	"gputrain/train/setup"
	"gputrain/transport"
)

// Exit codes that scripts may rely on.
const (
	exitFailure    = 1
	exitUsage      = 2
	exitStopped    = 3 // what was computed is saved: run the same command again
	exitDiverged   = 4
	exitMemory     = 5
	exitCheckpoint = 6
	exitNoAdapter  = 7
	exitBug        = 8 // a panic
	exitRankLost   = 9 // another rank has failed, or is gone: a run goes on from its newest checkpoint
)

// A usageError is a mistake on the command line or in the run file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode maps an error to the code of its kind.
func exitCode(err error) int {
	var usage usageError
	var mistake *setup.UsageError
	var unreadable *setup.ModelError
	var limit *gpu.LimitError
	var changed *train.ChangedError
	var directory *train.DirError
	var panicked *caught.Panic
	var lost *transport.Error
	var code codeError
	var peer *cluster.PeerError
	var different *cluster.DifferentError
	var signalled *train.SignalError
	var notFinite *model.NotFiniteError
	switch {
	case errors.As(err, &peer):
		return peer.Code
	case errors.As(err, &different):
		return exitUsage
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &panicked):
		return exitBug
	case errors.As(err, &usage), errors.As(err, &mistake), errors.As(err, &changed), errors.As(err, &directory), errors.Is(err, train.ErrNoRun):
		return exitUsage
	case errors.As(err, &signalled) && signalled.Signal == syscall.SIGTERM && launch.Rank(): // mpirun ends what is left of a job
		return exitRankLost
	case errors.Is(err, train.ErrStopped):
		return exitStopped
	case errors.Is(err, train.ErrDiverged):
		return exitDiverged
	case errors.Is(err, gpu.ErrOutOfMemory), errors.As(err, &limit):
		return exitMemory
	case errors.Is(err, checkpoint.Err), errors.As(err, &unreadable), errors.As(err, &notFinite):
		return exitCheckpoint
	case errors.Is(err, gpu.ErrNoAdapter):
		return exitNoAdapter
	case errors.As(err, &lost):
		return exitRankLost
	}
	return exitFailure
}
