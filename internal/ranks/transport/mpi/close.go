//go:build unix

package mpi

import (
	"fmt"
	"time"

	"gputrain/internal/ranks/transport"
)

// hub is what rank 0 knows of those who close. Every rank says so to it alone, so that the end of a run takes few messages.
type hub struct {
	byes map[int]int // calls of all ranks that each has come to
}

// loneliness is how long a rank may close alone until the others are told.
const loneliness = 300 * time.Millisecond

// takeLeave waits until all ranks close.
func (r *ranks) takeLeave() *transport.Error {
	r.mu.Lock()
	entered := r.entered
	r.mu.Unlock()
	if r.rank == 0 {
		r.bye(0, entered)
	} else {
		go r.post(note{Bye: &entered}, 0)
	}
	select {
	case <-r.closed:
		return nil
	case <-r.failed:
		return r.failure
	case <-time.After(closePatience):
		return r.blame("close", r.rank, fmt.Errorf("found ranks that do not close, wanted all within %v", closePatience))
	}
}

// bye is a rank that closes, as rank 0 hears it.
func (r *ranks) bye(rank, entered int) {
	r.mu.Lock()
	if r.hub.byes == nil {
		r.hub.byes = map[int]int{}
	}
	r.hub.byes[rank] = entered
	everyone := len(r.hub.byes) == r.size
	r.mu.Unlock()
	if !everyone {
		time.AfterFunc(loneliness, func() { r.tellLeft(leaver{rank, entered}) })
		return
	}
	r.post(note{Closed: true}, r.others()...)
	close(r.closed)
}

// tellLeft says to all others that a rank has left, unless all have.
func (r *ranks) tellLeft(l leaver) {
	r.mu.Lock()
	everyone := len(r.hub.byes) == r.size
	r.mu.Unlock()
	if !everyone {
		r.setLeft(l)
		r.post(note{Left: &l}, r.others()...)
	}
}

func (r *ranks) setLeft(l leaver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[l.Rank] = l.Entered
	close(r.leaving)
	r.leaving = make(chan struct{})
}
