//go:build unix

package mpi

import (
	"context"
	"encoding/binary"
	"fmt"

	"gputrain/transport"
)

// Broadcast sends what the root has in pieces. All lengths are known before.
func (r *ranks) Broadcast(ctx context.Context, root int, b []byte) error {
	if root < 0 || root >= r.size {
		return fmt.Errorf("transport: broadcast: found root %d, wanted one of %d ranks", root, r.size)
	}
	c, lengths, err := r.meet(ctx, "broadcast", len(b))
	if err != nil {
		return err
	}
	defer r.part(c)
	for i, n := range lengths { // every rank sees the same, and blames the same
		if n != lengths[root] {
			return r.fail(c, i, transport.WrongLength(lengths[root], n))
		}
	}
	if len(b) == 0 {
		return nil
	}
	return r.flow(ctx, c, len(b), func(m memory, at, n int) <-chan ended {
		if r.rank == root {
			copy(m.bytes(), b[at:at+n])
		}
		return r.engine.broadcast(r.messages, m, n, root)
	}, func(m memory, at, n, _ int) error {
		copy(b[at:at+n], m.bytes())
		return nil
	})
}

// roundBytes is how much all ranks together give in a round, as the library's places are C's int.
var roundBytes = 64 << 20

func (r *ranks) Gather(ctx context.Context, own []byte) ([][]byte, error) {
	c, lengths, err := r.meet(ctx, "gather", len(own))
	if err != nil {
		return nil, err
	}
	defer r.part(c)
	given := make([][]byte, r.size)
	longest, share := 0, max(roundBytes/r.size, 1<<10)
	for i, n := range lengths {
		given[i], longest = make([]byte, n), max(longest, n)
	}
	for at := 0; at < longest; at += share {
		part := func(i int) []byte { return given[i][min(at, lengths[i]):min(at+share, lengths[i])] }
		counts := make([]int, r.size)
		for i := range counts {
			counts[i] = len(part(i))
		}
		err := r.round(ctx, c, own[min(at, len(own)):min(at+share, len(own))], counts, func(i int, b []byte) { copy(part(i), b) })
		if err != nil {
			return nil, err
		}
	}
	return given, nil
}

// round gathers as many bytes of each rank as counts say, and hands each rank's to take.
func (r *ranks) round(ctx context.Context, c *call, own []byte, counts []int, take func(rank int, b []byte)) error {
	total := 0
	places := [2]memory{allocate(4 * r.size), allocate(4 * r.size)} // counts, offsets
	for i, n := range counts {
		places[0].put(i, n)
		places[1].put(i, total)
		total += n
	}
	from, to := allocate(len(own)), allocate(total)
	copy(from.bytes(), own)
	if _, err := r.await(ctx, c, r.engine.gather(r.messages, from, len(own), to, places[0], places[1])); err != nil {
		return err
	}
	at := 0
	for i, n := range counts {
		take(i, to.bytes()[at:at+n])
		at += n
	}
	for _, m := range []memory{places[0], places[1], from, to} {
		m.free()
	}
	return nil
}

func (r *ranks) Barrier(ctx context.Context) error {
	c, _, err := r.meet(ctx, "barrier", 0)
	if err != nil {
		return err
	}
	r.part(c)
	return nil
}

// kinds are the calls of all ranks.
var kinds = []string{"barrier", "broadcast", "gather"}

// meet begins a call of all ranks, of which it makes sure that all make the same, and gives the length of each rank's bytes. End it with part.
func (r *ranks) meet(ctx context.Context, operation string, length int) (*call, []int, error) {
	r.collective.Lock()
	c, err := r.enter(ctx, operation, all)
	if err != nil {
		r.collective.Unlock()
		return nil, nil, err
	}
	heads := make([]struct{ kind, length uint64 }, r.size)
	own := binary.LittleEndian.AppendUint64(nil, kindOf(operation))
	own = binary.LittleEndian.AppendUint64(own, uint64(length))
	counts := make([]int, r.size)
	for i := range counts {
		counts[i] = len(own)
	}
	err = r.round(ctx, c, own, counts, func(i int, b []byte) {
		heads[i].kind, heads[i].length = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	})
	lengths := make([]int, r.size)
	for i := 0; err == nil && i < r.size; i++ {
		if lengths[i] = int(heads[i].length); heads[i].kind != heads[0].kind {
			err = r.fail(c, i, fmt.Errorf("it has come to %s, rank 0 to %s", kinds[heads[i].kind], kinds[heads[0].kind]))
		}
	}
	if err != nil {
		r.part(c)
		return nil, nil, err
	}
	return c, lengths, nil
}

func (r *ranks) part(c *call) {
	r.leave(c)
	r.collective.Unlock()
}

func kindOf(operation string) uint64 {
	for i, k := range kinds {
		if k == operation {
			return uint64(i)
		}
	}
	panic("transport/mpi: no call of all ranks is named " + operation)
}
