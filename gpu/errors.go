package gpu

import (
	"errors"
	"fmt"
)

// Sentinels, always wrapped with the details; test with errors.Is.
var (
	ErrNoAdapter   = errors.New("no usable adapter")
	ErrDeviceLost  = errors.New("device lost")
	ErrOutOfMemory = errors.New("out of memory")
	ErrTimeout     = errors.New("timed out")
	ErrReleased    = errors.New("the device is released")
)

// LimitError says that something is larger than the adapter (or the limits enforced on it) allows.
type LimitError struct {
	Subject string // what is too large: `buffer "x"`
	Bytes   uint64 // its size, in the unit of the limit
	Limit   uint64
	Name    string // the field of Limits
}

func (e *LimitError) Error() string {
	unit := "bytes"
	switch e.Name {
	case "StorageBuffers", "Invocations", "WorkgroupSize", "Workgroups":
		unit = "wanted"
	}
	return fmt.Sprintf("%s: %d %s, limit %s %d", e.Subject, e.Bytes, unit, e.Name, e.Limit)
}
