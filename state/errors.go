package state

import (
	"errors"
	"fmt"
	"sync/atomic"

	"gputrain/checkpoint"
)

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

func loadError(dir, format string, args ...any) error {
	return &checkpoint.LoadError{Path: dir, Err: fmt.Errorf(format, args...)}
}
