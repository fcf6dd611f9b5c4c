// Package transport carries bytes between the ranks of a run: processes, on one machine or on many, that train one model together. It knows
// no tensors.
//
// A call waits until it is done, its context ends, or another rank is known to be gone. An error is an Error: it names the rank that is to blame,
// its host and the operation. After an error of one call no other will succeed, on any rank: ranks are lost together, and a run goes on from its
// newest checkpoint.
package transport

import (
	"context"
	"fmt"
)

// Ranks are the processes of a run, as one of them sees them.
type Ranks interface {
	// Rank is which of Size this one is, from 0 on.
	Rank() int
	Size() int
	// Host names the machine that a rank runs on.
	Host(rank int) string

	// Send gives b to another rank. It may wait for the Receive, and it may return before that; b may be reused then. Messages from one rank to another
	// with one tag arrive in the order in which they were sent. Calls with different peers or tags may be under way at the same time, from several
	// goroutines, and beside a call of all ranks.
	Send(ctx context.Context, to int, tag Tag, b []byte) error
	// Receive fills b with the oldest message of a rank that has this tag. A message of another length is an error.
	Receive(ctx context.Context, from int, tag Tag, b []byte) error

	// Gather is the call of all ranks, one at a time: it gives every rank what all have given, in the order of their ranks. Lengths may differ.
	Gather(ctx context.Context, own []byte) ([][]byte, error)

	// Reach asks all other ranks whether they are there, whatever they are at: an error names one that does not answer. Others make no call, and all is as it was.
	Reach(ctx context.Context) error

	// Fail tells the others that this rank ends by an error of its own: all calls fail with it, also those that wait. It does nothing after an error.
	Fail(err error)
	// Close takes leave of the others, who must do the same. It does not wait for them after an error, nor for ever.
	Close() error
}

// Name is a rank for people.
func Name(rank int, host string) string { return fmt.Sprintf("rank %d on host %s", rank, host) }

// Tag tells apart messages between the same two ranks. It is at most MaxTag.
type Tag int32

// MaxTag is the largest that every MPI has.
const MaxTag Tag = 1<<15 - 1
