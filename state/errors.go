package state

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrCheckpoint is wrapped by every error of writing, finding and reading checkpoints, the ones below included.
var ErrCheckpoint = errors.New("checkpoint")

// What can be wrong with a checkpoint; the errors returned wrap these with the file, the tensor, what was found and what was wanted.
var (
	// ErrCorrupt says that a checkpoint's bytes are not the ones that were written.
	ErrCorrupt = fmt.Errorf("%w is corrupt", ErrCheckpoint)
	// ErrVersion says that a checkpoint was written in a format this program does not read.
	ErrVersion = fmt.Errorf("%w has another format", ErrCheckpoint)
	// ErrMismatch says that a whole checkpoint belongs to another model, optimizer or schedule.
	ErrMismatch = fmt.Errorf("%w belongs to another run", ErrCheckpoint)
)

// ErrNonFinite says that a state with a NaN or an infinity in it was about to be saved.
var ErrNonFinite = errors.New("not finite, not saved")

// ErrInUse says that another reads a checkpoint, or removes it.
var ErrInUse = errors.New("in use")

// errNoDevice is the error of what needs a device and has none.
var errNoDevice = errors.New("state: device: found none, wanted one of gpu.Open")

// ErrTwoCalls says that a training state is in use: it is for one goroutine.
var ErrTwoCalls = errors.New("found another call under way, wanted calls from one goroutine, one after the other")

// Turn lets one call in at a time: two would wait for each other for ever.
type Turn struct{ taken atomic.Bool }

// Take begins a call, which ends with Give; ErrTwoCalls while another is under way.
func (t *Turn) Take() error {
	if !t.taken.CompareAndSwap(false, true) {
		return ErrTwoCalls
	}
	return nil
}

// Give ends a call.
func (t *Turn) Give() { t.taken.Store(false) }

// NonFiniteError is ErrNonFinite with the tensor, named as Snapshot.FirstNonFinite does.
type NonFiniteError struct {
	Tensor  string
	Element int
}

// Error names the element.
func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("%q: element %d: %v", e.Tensor, e.Element, ErrNonFinite)
}

// Unwrap is ErrNonFinite.
func (e *NonFiniteError) Unwrap() error { return ErrNonFinite }

// SaveError is the failure to write a checkpoint.
type SaveError struct {
	Path string
	Err  error
}

// Error names the checkpoint.
func (e *SaveError) Error() string { return fmt.Sprintf("state: save %q: %v", e.Path, e.Err) }

// Unwrap gives ErrCheckpoint beside the cause.
func (e *SaveError) Unwrap() []error { return []error{ErrCheckpoint, e.Err} }

// SpaceError says that a checkpoint does not fit the disk. Nothing was written.
type SpaceError struct {
	Wanted, Free uint64 // bytes
}

// Error names the bytes wanted and the bytes free.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("%d bytes wanted, %d bytes free on the disk", e.Wanted, e.Free)
}

// loadError is an error of reading the checkpoint in dir; it wraps err, and ErrCheckpoint through it or beside it.
func loadError(dir, format string, args ...any) error {
	err := fmt.Errorf("state: load %q: "+format, append([]any{dir}, args...)...)
	if errors.Is(err, ErrCheckpoint) {
		return err
	}
	return checkpointError{err}
}

// checkpointError adds ErrCheckpoint to an error without changing its text.
type checkpointError struct{ error }

func (e checkpointError) Unwrap() []error { return []error{ErrCheckpoint, e.error} }
