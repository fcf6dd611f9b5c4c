//go:build unix

package mpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"gputrain/internal/ranks/transport"
)

// ranks is the processes of an MPI job.
type ranks struct {
	engine            *engine
	messages, control int // channels
	rank, size        int
	hosts             []string

	collective sync.Mutex // one call of all ranks at a time
	pool       pool

	mu      sync.Mutex
	calls   []*call // under way, the oldest first
	entered int     // calls of all ranks that this one has come to
	failure *transport.Error
	failed  chan struct{} // closed when there is a failure
	answers map[int]where // of a question under way
	left    map[int]int   // ranks that have closed, and to how many calls of all ranks each has come
	leaving chan struct{} // closed when left changes
	closing bool
	closed  chan struct{} // closed when all ranks are closing
	hub     hub
}

// Open joins the processes that were launched together; all must.
func Open() (transport.Ranks, error) {
	e, err := start()
	if err != nil {
		return nil, err
	}
	return join(e)
}

// join makes ranks of the processes that the library has found.
func join(e *engine) (*ranks, error) {
	r := &ranks{
		engine: e, rank: e.rank, size: e.size, hosts: make([]string, e.size),
		failed: make(chan struct{}), closed: make(chan struct{}), left: map[int]int{}, leaving: make(chan struct{}),
	}
	for _, channel := range []*int{&r.messages, &r.control} {
		var err error
		if *channel, err = e.channel(); err != nil {
			return nil, err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("transport/mpi: open: %w", err)
	}
	r.hosts[r.rank] = host
	names, err := r.Gather(context.Background(), []byte(host))
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		r.hosts[i] = string(name)
	}
	go r.listen() // what comes names hosts
	return r, nil
}

func (r *ranks) Rank() int            { return r.rank }
func (r *ranks) Size() int            { return r.size }
func (r *ranks) Host(rank int) string { return r.hosts[rank] }

func (r *ranks) Fail(err error) {
	_ = r.fail(&call{operation: "fail"}, r.rank, err) // the caller has it
}

// closePatience is how long others may take to close too, and the library to end.
const closePatience = 20 * time.Second

// toldPatience is how long a rank that was told of a failure stays, so that the exit code of a job is that of the rank that failed: mpirun takes the
// first, and then ends the others.
var toldPatience = 2 * time.Second

func (r *ranks) Close() error {
	r.mu.Lock()
	again := r.closing
	r.closing = true
	failure := r.failure
	r.mu.Unlock()
	if again {
		return nil
	}
	if failure == nil {
		failure = r.takeLeave()
	}
	if failure != nil {
		if failure.By != r.rank {
			time.Sleep(toldPatience)
		}
		return failure.During("close")
	}
	select {
	case err := <-r.engine.finalize():
		return err
	case <-time.After(closePatience):
		return errors.New("transport/mpi: close: the library does not end")
	}
}
