//go:build !windows

package system

import "time"

// Stopwatch returns what tells how long ago it was called.
func Stopwatch() (took func() time.Duration) {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}
