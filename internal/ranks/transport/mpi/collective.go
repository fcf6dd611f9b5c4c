//go:build unix

package mpi

import (
	"context"
	"encoding/binary"
)

// roundBytes is how much all ranks together give in a round, as the library's places are C's int.
var roundBytes = 64 << 20

func (r *ranks) Gather(ctx context.Context, own []byte) ([][]byte, error) {
	c, lengths, err := r.meet(ctx, len(own))
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

// meet begins a call of all ranks and gives the length of each rank's bytes. End it with part.
func (r *ranks) meet(ctx context.Context, length int) (*call, []int, error) {
	r.collective.Lock()
	c, err := r.enter(ctx, "gather", all)
	if err != nil {
		r.collective.Unlock()
		return nil, nil, err
	}
	own := binary.LittleEndian.AppendUint64(nil, uint64(length))
	counts := make([]int, r.size)
	for i := range counts {
		counts[i] = len(own)
	}
	lengths := make([]int, r.size)
	err = r.round(ctx, c, own, counts, func(i int, b []byte) { lengths[i] = int(binary.LittleEndian.Uint64(b)) })
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
