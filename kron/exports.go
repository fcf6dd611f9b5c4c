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
	u, err := newUnits(dev, matrices, n, keys)
	defer u.Release()
	if err != nil {
		return nil, fmt.Errorf("kron: bounds: %w", err)
	}
	rec := dev.Record("gputrain.kron.bounds")
	b := bounding{t: u.stack(u.q), skew: skew, keys: u.keys.All(), bounds: u.turns.All(), spare: u.rr.All()}
	out := make([]float32, len(matrices))
	b.record(rec, dev, u.config)
	err = u.submit(ctx, rec, u.turns, func(i int, x float32) {
		if i < len(out) {
			out[i] = x
		}
	})
	if err != nil {
		return nil, fmt.Errorf("kron: bounds: %w", err)
	}
	return out, nil
}

// Procrustes turns n by n matrices towards symmetric ones on a device, as procrustesTwin does in the numerics of eformer with blocks of
// n. There is a key a matrix.
func Procrustes(ctx context.Context, dev *gpu.Device, matrices [][]float32, n int, keys []prng.Key) ([][]float32, error) {
	u, err := newUnits(dev, matrices, n, keys)
	defer u.Release()
	if err != nil {
		return nil, fmt.Errorf("kron: procrustes: %w", err)
	}
	rec := dev.Record("gputrain.kron.procrustes")
	p := procrustes{
		q: u.stack(u.q), out: u.stack(u.out), r: u.stack(u.r), rr: u.stack(u.rr),
		turns: u.turns.All(), coefficients: u.coefficients.All(), keys: u.keys.All(),
	}
	out := make([][]float32, len(matrices))
	for i := range out {
		out[i] = make([]float32, n*n)
	}
	p.record(rec, dev, u.config)
	err = u.submit(ctx, rec, u.out, func(i int, x float32) {
		if row, col := i/u.side%u.side, i%u.side; row < n && col < n {
			out[i/(u.side*u.side)][row*n+col] = x
		}
	})
	if err != nil {
		return nil, fmt.Errorf("kron: procrustes: %w", err)
	}
	return out, nil
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

// submit runs the recording and gives every number of a buffer.
func (u *units) submit(ctx context.Context, rec *gpu.Recording, from *gpu.Buffer, each func(i int, x float32)) error {
	if err := rec.Submit(ctx); err != nil {
		return err
	}
	raw := make([]byte, from.Bytes())
	if err := u.Device().Read(ctx, raw, from.All()); err != nil {
		return err
	}
	for i, x := range array.Decoded(buffers.F32, raw) {
		each(i, x)
	}
	return nil
}
