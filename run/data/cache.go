package data

import (
	"fmt"

	"gputrain/internal/system"
)

// A CacheError says why tokens of text cannot be kept, and what to do.
type CacheError struct{ Err error }

func (e *CacheError) Error() string {
	what := "name a directory to write to"
	if e.Full() {
		what = "make room there, or name another directory"
	}
	return fmt.Sprintf("data: tokens of text: %v: %s in data.cache, or for all that is kept in GPUTRAIN_CACHE", e.Err, what)
}

// Unwrap is the cause.
func (e *CacheError) Unwrap() error { return e.Err }

// Full tells whether the disk is full.
func (e *CacheError) Full() bool { return system.Full(e.Err) }
