// Package caught carries a panic of a goroutine to the one that waits for it, as an error: otherwise it would end the process at once, with a dump and
// without a word of what may be done.
package caught

import (
	"fmt"
	"runtime/debug"
)

// Panic is the error that a panic has become, with the stack of the goroutine that it was in.
type Panic struct {
	Value any
	Stack []byte
}

// Error says what the panic said.
func (p *Panic) Error() string { return fmt.Sprintf("a bug of gputrain: %v", p.Value) }

// Do is f; a panic in it is its error.
func Do(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{value, debug.Stack()}
		}
	}()
	return f()
}
