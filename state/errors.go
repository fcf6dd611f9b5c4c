package state

import (
	"errors"
	"fmt"
)

// Sentinels of this package; the errors returned wrap them with the file, the tensor, what was found and what was wanted.
var (
	// ErrCorrupt says that a checkpoint's bytes are not the ones that were written.
	ErrCorrupt = errors.New("checkpoint is corrupt")
	// ErrVersion says that a checkpoint was written in a format this program does not read.
	ErrVersion = errors.New("checkpoint format not supported")
	// ErrMismatch says that a whole checkpoint belongs to another model, optimizer or schedule.
	ErrMismatch = errors.New("checkpoint belongs to another run")
	// ErrNonFinite says that a state with a NaN or an infinity in it was about to be saved.
	ErrNonFinite = errors.New("state is not finite")
)

// SpaceError says that a checkpoint does not fit the disk. Nothing was written.
type SpaceError struct {
	Path         string
	Wanted, Free uint64 // bytes
}

// Error names the bytes wanted and the bytes free.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("state: save %q: %d bytes wanted, %d bytes free on the disk", e.Path, e.Wanted, e.Free)
}

// MemoryError says that a training state does not fit the memory of its adapter. Nothing was taken.
type MemoryError struct {
	Plan   MemoryPlan
	Limit  uint64 // bytes
	Source string // where the limit comes from
	Hint   string // what to lower, with figures
}

// Error gives the plan's figures and what to lower.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("state: memory: %s: wanted %d bytes, %s is %d bytes; %s", e.Plan, e.Plan.Total(), e.Source, e.Limit, e.Hint)
}
