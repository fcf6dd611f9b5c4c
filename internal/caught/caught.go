// Package caught carries a panic of a goroutine to the one that waits for it, as an error: otherwise it would end the process at once, with a dump and
// without a word of what may be done.
package caught

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"sync"
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

// Each does something for 0 to n-1, at most so many beside each other, and returns the error of the lowest.
func Each(n, most int, do func(i int) error) error {
	errs, slots := make([]error, n), make(chan struct{}, most)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = Do(func() error { return do(i) })
			<-slots
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}
