package transport

import (
	"context"
	"errors"
	"fmt"
)

// Error is why calls fail: one rank has failed, is gone, or was waited for in vain.
type Error struct {
	// Operation is the call that fails.
	Operation string
	// Rank is to blame, and Host is where it runs.
	Rank int
	Host string
	// By is the rank that noticed. It may be the one to blame, and it is this one where nobody has told it.
	By  int
	Err error
}

// Error names the rank, its host and the operation.
func (e *Error) Error() string {
	return fmt.Sprintf("transport: %s: rank %d (%s): %v", e.Operation, e.Rank, e.Host, e.Err)
}

// Unwrap is why.
func (e *Error) Unwrap() error { return e.Err }

// During is the same error, as another operation meets it.
func (e *Error) During(operation string) *Error {
	if operation == e.Operation {
		return e
	}
	other := *e
	other.Operation = operation
	return &other
}

// ErrLeft is a rank that has closed while others still wait for it.
var ErrLeft = errors.New("it has left")

// ErrClosed is a call after Close.
var ErrClosed = errors.New("this rank has closed")

// WrongLength is a message that was not expected.
func WrongLength(found, wanted int) error {
	return fmt.Errorf("found a message of %d bytes, wanted %d", found, wanted)
}

// ended is the error of a rank's call on r, whose context has ended while it waited for the rank awaited: that one is to blame for a
// deadline, and rank itself for any other end.
func ended(ctx context.Context, r Ranks, operation string, awaited int) *Error {
	e := &Error{Operation: operation, Rank: awaited, By: r.Rank()}
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		e.Err = fmt.Errorf("it was waited for in vain: %w", cause)
	} else {
		e.Rank, e.Err = r.Rank(), fmt.Errorf("it no longer waits: %w", cause)
	}
	e.Host = r.Host(e.Rank)
	return e
}

// CheckPeer refuses a peer and tag that no message can have.
func CheckPeer(r Ranks, operation string, peer int, tag Tag) error {
	switch {
	case peer < 0 || peer >= r.Size() || peer == r.Rank():
		return fmt.Errorf("transport: %s: found rank %d, wanted another than this one, %d, of %d", operation, peer, r.Rank(), r.Size())
	case tag < 0 || tag > MaxTag:
		return fmt.Errorf("transport: %s: found tag %d, wanted 0 to %d", operation, tag, MaxTag)
	}
	return nil
}
