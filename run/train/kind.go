package train

import (
	"context"
	"errors"
	"slices"

	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/internal/ranks/cluster"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/internal/system"
	"gputrain/model"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// Kind is how a run, or a command around it, ends: what a report says, the exit code, and whether it is started again follow from it.
type Kind int

// The kinds. Every run ends in exactly one of them. Errors of packages above this one are those that they match: ErrUsage, checkpoint.Err.
const (
	kindDone       Kind = iota // all steps were made
	KindUsage                  // a mistake of whoever has written the command, the run file or the program
	KindStopped                // by a signal, a hook or the caller's context; saved, the same run goes on from here
	kindTimeLimit              // Config.TimeLimit has passed; saved likewise
	kindDiverged               // loss or gradient was not finite for too many steps
	kindMemory                 // planned or met
	kindCheckpoint             // one, or the logs that belong to it, could not be written or read
	kindNoAdapter
	KindBug
	KindRankLost
	KindDeviceLost // by a driver or a cable; the same run goes on from the newest checkpoint
	kindEarly      // Config.Patience is over: no evaluation was better for long enough
	kindFailed     // anything else
)

// kinds say what follows from each. Scripts rely on the codes.
var kinds = [...]struct {
	text  string
	code  int
	again bool // the run may go on from its newest checkpoint; the others would only come again
}{
	kindDone:       {text: "done"},
	KindUsage:      {text: "error", code: 2},
	KindStopped:    {text: "stopped", code: 3},
	kindTimeLimit:  {text: "time limit", code: 3},
	kindEarly:      {text: "stopped early"},
	kindDiverged:   {text: "diverged", code: 4},
	kindMemory:     {text: "out of memory", code: 5},
	kindCheckpoint: {text: "checkpoint problem", code: 6},
	kindNoAdapter:  {text: "error", code: 7},
	KindBug:        {text: "error", code: 8},
	KindRankLost:   {text: "error", code: 9, again: true},
	KindDeviceLost: {text: "device lost", code: 1, again: true},
	kindFailed:     {text: "error", code: 1, again: true},
}

// String is what a report says of it.
func (k Kind) String() string { return kinds[k].text }

// ExitCode is the code of the process.
func (k Kind) ExitCode() int { return kinds[k].code }

// MayGoOn tells whether a run whose process has ended with a code may go on from its newest checkpoint. Codes of no kind are of signals.
func MayGoOn(code int) bool {
	k, known := kindOfCode(code)
	return known && kinds[k].again || !known && code > 0
}

// kindOfCode is the first kind with a code, of those with code 1 KindFailed.
func kindOfCode(code int) (Kind, bool) {
	if code == kindFailed.ExitCode() {
		return kindFailed, true
	}
	for k := range kinds {
		if kinds[k].code == code {
			return Kind(k), true
		}
	}
	return kindFailed, false
}

// KindOf finds the kind of an error, of several the first in this order. Only what is known is named.
func KindOf(err error) Kind {
	if peer, ok := errors.AsType[*mesh.PeerError](err); ok && peer.Weight == mesh.Fatal {
		k, _ := kindOfCode(peer.Code)
		return k
	}
	switch {
	case err == nil:
		return kindDone
	case is[*cluster.DifferentError](err):
		return KindUsage
	case is[*caught.Panic](err):
		return KindBug
	case errors.Is(err, ErrUsage), errors.Is(err, errNoRun), is[*ChangedError](err), is[*DirError](err), is[*state.ProductError](err):
		return KindUsage
	case errors.Is(err, ErrStopped) && is[*TimeLimitError](err):
		return kindTimeLimit
	case errors.Is(err, ErrStopped):
		return KindStopped
	case errors.Is(err, errDiverged):
		return kindDiverged
	case errors.Is(err, gpu.ErrOutOfMemory), is[*gpu.LimitError](err):
		return kindMemory
	case errors.Is(err, checkpoint.Err), is[*model.NotFiniteError](err), system.Full(err): // the disk may be full for a log or a report too
		return kindCheckpoint
	case errors.Is(err, gpu.ErrNoAdapter):
		return kindNoAdapter
	case is[*transport.Error](err):
		return KindRankLost
	case errors.Is(err, gpu.ErrDeviceLost):
		return KindDeviceLost
	}
	return kindFailed
}

// is tells whether an error is, or wraps, one of a type.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// endWeight is what an error weighs against those of other ranks.
func endWeight(ctx context.Context, err error) mesh.Weight {
	switch {
	case err == nil:
		return mesh.GoOn
	case stopOf(ctx, err) != nil:
		return mesh.Stop
	case isSound(err):
		return mesh.Sound
	}
	return mesh.Fatal
}

// likewise makes of another rank's reason to end one of this rank.
func likewise(err error) error {
	peer, ok := errors.AsType[*mesh.PeerError](err)
	if !ok {
		return err
	}
	switch {
	case peer.Weight == mesh.Stop && !errors.Is(err, ErrStopped):
		return stopError{cause: err}
	case peer.Weight == mesh.Sound && !isSound(err):
		return soundError{err}
	}
	return err
}

// soundError is an error that has nothing to do with the state, which can be saved.
type soundError struct{ err error }

func (e soundError) Error() string { return e.err.Error() }
func (e soundError) Unwrap() error { return e.err }

// isSound tells whether err is sound in all its parts.
func isSound(err error) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		_, ok = err.(soundError)
		return ok
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(part error) bool { return !isSound(part) })
}
