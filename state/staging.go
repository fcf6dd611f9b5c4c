package state

import (
	"context"
	"sync/atomic"
)

// stagingBytes is how much of a tensor is on the host at once while it is saved or loaded. A read of so much takes some milliseconds, beside which the
// 0.1 ms that every read costs is little.
const stagingBytes = 16 << 20

// hostStagingBytes bounds what saving and loading take of the host beside a copy: a piece of a tensor, and what it is put together from. An optimizer's
// tensor that is only to be had at once (buffers.Tensor.ReadAt) may take more.
const hostStagingBytes = 2 * stagingBytes

// reader fills dst with the bytes of a tensor from byte at on.
type reader func(ctx context.Context, dst []byte, at int) error

// staging is the memory that tensors are read through, one after the other. It counts what saves hold of the host, copies included.
type staging struct {
	piece      int // the most bytes at once of a tensor that is to be had in pieces
	memory     []byte
	held, most atomic.Int64
}

// room is memory for n bytes, which the next call takes back.
func (s *staging) room(n int) []byte {
	if n > len(s.memory) {
		s.count(n - len(s.memory))
		s.memory = make([]byte, n)
	}
	return s.memory[:n]
}

// count counts bytes that are taken, or given back.
func (s *staging) count(bytes int) {
	held := s.held.Add(int64(bytes))
	for most := s.most.Load(); held > most && !s.most.CompareAndSwap(most, held); most = s.most.Load() {
	}
}

// pieces are how many bytes of a tensor are read at once.
func (s *staging) pieces(bytes int, whole bool) int {
	if whole {
		return bytes
	}
	return min(s.piece, bytes)
}

// each reads a tensor, a piece at a time, and hands each piece to f, which does not keep it.
func (t *stored) each(ctx context.Context, through *staging, f func(piece []byte, at int) error) error {
	step := through.pieces(t.bytes, t.whole)
	for at := 0; at < t.bytes; at += step {
		n := min(step, t.bytes-at)
		piece := t.copied(at, n)
		if piece == nil {
			piece = through.room(n)
			if err := t.read(ctx, piece, at); err != nil {
				return err
			}
		}
		if err := f(piece, at); err != nil {
			return err
		}
	}
	return nil
}
