package kron

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// Bounds bounds the spectral norm of n by n matrices from below on a device, as Bound does in the numerics of eformer with blocks of n:
// symmetric positive semidefinite ones, or with skew those whose transpose is their negative. There is a key a matrix.
func Bounds(ctx context.Context, dev *gpu.Device, matrices [][]float32, n int, keys []prng.Key, skew bool) ([]float32, error) {
	raw, _, err := onUnits(ctx, dev, "bounds", matrices, n, keys, func(u *units, rec *gpu.Recording) *gpu.Buffer {
		b := bounding{t: u.stack(u.q), skew: skew, keys: u.keys.All(), bounds: u.turns.All(), spare: u.rr.All()}
		b.record(rec, dev, u.config)
		return u.turns
	})
	if err != nil {
		return nil, err
	}
	return raw[:len(matrices)], nil
}

// Procrustes turns n by n matrices towards symmetric ones on a device, as procrustesTwin does in the numerics of eformer with blocks of
// n. There is a key a matrix.
func Procrustes(ctx context.Context, dev *gpu.Device, matrices [][]float32, n int, keys []prng.Key) ([][]float32, error) {
	raw, side, err := onUnits(ctx, dev, "procrustes", matrices, n, keys, func(u *units, rec *gpu.Recording) *gpu.Buffer {
		p := procrustes{
			q: u.stack(u.q), out: u.stack(u.out), r: u.stack(u.r), rr: u.stack(u.rr),
			turns: u.turns.All(), coefficients: u.coefficients.All(), keys: u.keys.All(),
		}
		p.record(rec, dev, u.config)
		return u.out
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(matrices))
	for i := range out {
		for row := range n {
			out[i] = append(out[i], raw[(i*side+row)*side:][:n]...)
		}
	}
	return out, nil
}

// onUnits records a step of some matrices, and gives the numbers of the buffer that it leaves, and the side that matrices have there.
func onUnits(ctx context.Context, dev *gpu.Device, name string, matrices [][]float32, n int, keys []prng.Key,
	record func(u *units, rec *gpu.Recording) *gpu.Buffer,
) (numbers []float32, side int, err error) {
	u, err := newUnits(dev, matrices, n, keys)
	defer u.Release()
	if err == nil {
		rec := dev.Record("gputrain.kron." + name)
		from := record(u, rec)
		raw := make([]byte, from.Bytes())
		if err = rec.Submit(ctx); err == nil {
			err = dev.Read(ctx, raw, from.All())
		}
		numbers = array.Decoded(buffers.F32, raw)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("kron: %s: %w", name, err)
	}
	return numbers, u.side, nil
}

// units is a stack of matrices with all that their bounds and turns need.
type units struct {
	*gpu.Set
	config              Config
	count, side         int
	q, r, rr, out       *gpu.Buffer
	turns, coefficients *gpu.Buffer
	keys                *gpu.Buffer
}

func newUnits(dev *gpu.Device, matrices [][]float32, n int, keys []prng.Key) (*units, error) {
	u := &units{Set: dev.NewSet("gputrain.kron.unit"), config: Config{BlockSize: n}, count: len(matrices), side: roundUp(n, 4)}
	if len(keys) != u.count || u.count == 0 || n < 1 {
		return u, fmt.Errorf("%d matrices of side %d, %d keys: wanted a matrix or more, and a key for each", u.count, n, len(keys))
	}
	raw := make([]byte, 4*u.count*u.side*u.side)
	for i, m := range matrices {
		if len(m) != n*n {
			return u, fmt.Errorf("matrix %d: %d elements, wanted %d", i, len(m), n*n)
		}
		for k, x := range m {
			at := (i*u.side+k/n)*u.side + k%n
			binary.LittleEndian.PutUint32(raw[4*at:], math.Float32bits(x))
		}
	}
	size, n64 := uint64(len(raw)), uint64(u.count)
	u.q, u.r, u.rr, u.out = u.Filled("q", raw), u.Zeros("r", size), u.Zeros("rr", max(size, 32*n64*uint64(u.side))), u.Zeros("out", size)
	u.turns, u.coefficients, u.keys = u.Zeros("turns", 16*n64), u.Zeros("coefficients", 8*n64), u.Filled("keys", keys)
	return u, u.Err()
}

func (u *units) stack(b *gpu.Buffer) Stack {
	return Stack{Range: b.All(), Count: u.count, Rows: u.side, Cols: u.side, DType: buffers.F32}
}
