package state

import (
	"errors"
	"fmt"
	"sync/atomic"

	"gputrain/state/checkpoint"
)

// errNoDevice is the error of what needs a device and has none.
var errNoDevice = errors.New("state: device: found none, wanted one of gpu.Open")

// errTwoCalls says that a training state is in use: it is for one goroutine.
var errTwoCalls = errors.New("found another call under way, wanted calls from one goroutine, one after the other")

// turn lets one call in at a time: two would wait for each other for ever.
type turn struct{ taken atomic.Bool }

// take begins a call, which ends with give; errTwoCalls while another is under way.
func (t *turn) take() error {
	if !t.taken.CompareAndSwap(false, true) {
		return errTwoCalls
	}
	return nil
}

// give ends a call.
func (t *turn) give() { t.taken.Store(false) }

func loadError(dir, format string, args ...any) error {
	return &checkpoint.LoadError{Path: dir, Err: fmt.Errorf(format, args...)}
}
