package texts

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"gputrain/internal/caught"
)

// inOrder does work on all items, several at once, and takes the results in the order of the items. The first error, in that order, ends it.
func inOrder[I, O any](ctx context.Context, items iter.Seq[I], work func(I) (O, error), take func(O) error) error {
	type job struct {
		item I
		out  O
		err  error
		done chan struct{}
	}
	ctx, cancel := context.WithCancel(ctx)
	workers := runtime.GOMAXPROCS(0)
	todo, order := make(chan *job), make(chan *job, 2*workers)
	var all sync.WaitGroup
	var failed error
	all.Go(func() {
		defer close(order)
		defer close(todo)
		failed = caught.Do(func() error {
			for item := range items {
				j := &job{item: item, done: make(chan struct{})}
				for _, to := range []chan<- *job{order, todo} {
					select {
					case to <- j:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
			}
			return nil
		})
	})
	for range workers {
		all.Go(func() {
			for j := range todo {
				j.err = caught.Do(func() (err error) {
					j.out, err = work(j.item)
					return err
				})
				close(j.done)
			}
		})
	}
	err := takeAll(order, func(j *job) error {
		select {
		case <-j.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if j.err != nil {
			return j.err
		}
		return take(j.out)
	})
	cancel()
	all.Wait()
	if err == nil {
		err = failed
	}
	return err
}

func takeAll[T any](from <-chan T, take func(T) error) error {
	for one := range from {
		if err := take(one); err != nil {
			return err
		}
	}
	return nil
}
