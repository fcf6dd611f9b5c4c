package checkpoint

import (
	"errors"
	"fmt"
)

// Err is wrapped by every error of writing, finding and reading checkpoints, the ones below included.
var Err = errors.New("checkpoint")

// What can be wrong with a checkpoint; the errors returned wrap these with the file, the tensor, what was found and what was wanted.
var (
	// ErrCorrupt says that a checkpoint's bytes are not the ones that were written.
	ErrCorrupt = fmt.Errorf("%w is corrupt", Err)
	// ErrVersion says that a checkpoint was written in a format this program does not read.
	ErrVersion = fmt.Errorf("%w has another format", Err)
	// ErrMismatch says that a whole checkpoint belongs to another model, optimizer or schedule.
	ErrMismatch = fmt.Errorf("%w belongs to another run", Err)
)

// ErrNonFinite says that a state with a NaN or an infinity in it was about to be saved.
var ErrNonFinite = errors.New("not finite, not saved")

// ErrInUse says that another reads a checkpoint, or removes it.
var ErrInUse = errors.New("in use")

// NonFiniteError is ErrNonFinite with the tensor.
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
func (e *SaveError) Error() string { return fmt.Sprintf("checkpoint: save %q: %v", e.Path, e.Err) }

// Unwrap gives checkpoint.Err beside the cause.
func (e *SaveError) Unwrap() []error { return []error{Err, e.Err} }

// LoadError is the failure to read a checkpoint, or to make what it should have of it.
type LoadError struct {
	Path string
	Err  error
}

// Error names the checkpoint.
func (e *LoadError) Error() string { return fmt.Sprintf("checkpoint: load %q: %v", e.Path, e.Err) }

// Unwrap gives checkpoint.Err beside the cause.
func (e *LoadError) Unwrap() []error { return []error{Err, e.Err} }

func loadError(dir, format string, args ...any) error {
	return &LoadError{dir, fmt.Errorf(format, args...)}
}

// SpaceError says that a checkpoint does not fit the disk. Nothing was written.
type SpaceError struct {
	Wanted, Free uint64 // bytes
}

// Error names the bytes wanted and the bytes free.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("%d bytes wanted, %d bytes free on the disk", e.Wanted, e.Free)
}

// storeError is an error of a directory of checkpoints: one of Err whose text does not say so.
type storeError struct{ error }

func (e storeError) Unwrap() []error { return []error{Err, e.error} }
