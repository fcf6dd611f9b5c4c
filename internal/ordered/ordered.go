// Package ordered works on items of a sequence several at once, and takes what comes of them in their order.
package ordered

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"gputrain/internal/caught"
)

// Do does work on all items, several at once, and takes the results in the order of the items. The first error, in that order, ends it.
func Do[I, O any](ctx context.Context, items iter.Seq[I], work func(I) (O, error), take func(O) error) (err error) {
	type result struct {
		out O
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	order := make(chan chan result, 2*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	var failed error
	all.Go(func() {
		defer close(order)
		failed = caught.Do(func() error {
			for item := range items {
				done := make(chan result, 1)
				select {
				case order <- done:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				all.Go(func() {
					var r result
					r.err = caught.Do(func() (err error) {
						r.out, err = work(item)
						return err
					})
					done <- r
				})
			}
			return nil
		})
	})
	for done := range order {
		select {
		case r := <-done:
			if err = r.err; err == nil {
				err = take(r.out)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			break
		}
	}
	cancel()
	all.Wait()
	if err == nil {
		err = failed
	}
	return err
}
