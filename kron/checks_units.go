package kron

import (
	"context"
	"fmt"

	"gputrain/buffers/array"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// unitSide is larger than what any kernel handles at once, and no power of two.
const unitSide = 132

// unitChecks compares single kernels at a size that the blocks of a small model do not have.
func unitChecks() []gpu.Check {
	// Sums of 132 terms, and in the power iteration seven products on top of each other.
	const tolerance = 2e-5
	check := func(name string, run func(ctx context.Context, d *gpu.Device, f *follower) error) gpu.Check {
		return gpu.Check{Name: "kron." + name, Run: func(ctx context.Context, d *gpu.Device) (gpu.Result, error) {
			f := follower{device: d}
			if err := run(ctx, d, &f); err != nil {
				return f.result, fmt.Errorf("kron: check %s: %w", name, err)
			}
			f.result.Tolerance = tolerance
			return f.result, nil
		}}
	}
	return []gpu.Check{
		check("product", checkProducts),
		check("bound", func(ctx context.Context, d *gpu.Device, f *follower) error { return checkBound(ctx, d, f, false) }),
		check("bound_skew", func(ctx context.Context, d *gpu.Device, f *follower) error { return checkBound(ctx, d, f, true) }),
		check("procrustes", checkProcrustes),
	}
}

// unitMatrix is random, n by n.
func unitMatrix(seed uint64, n int) ([]float32, []float64) {
	key := prng.NewKey(seed)
	narrow, wide := make([]float32, n*n), make([]float64, n*n)
	for i := range narrow {
		narrow[i] = key.Normal(uint64(i))
		wide[i] = float64(narrow[i])
	}
	return narrow, wide
}

// checkProducts makes each form of two products of [n, n], and the half ones of a matrix with itself.
func checkProducts(ctx context.Context, d *gpu.Device, f *follower) error {
	const count, n = 2, unitSide
	var raw []float32
	var want [count][]float64
	for i := range count {
		narrow, wide := unitMatrix(uint64(i), n)
		want[i] = wide
		raw = append(raw, narrow...)
	}
	set := d.NewSet("gputrain.kron.check")
	defer set.Release()
	in, out := set.Filled("a", raw), set.Zeros("c", uint64(4*len(raw)))
	if err := set.Err(); err != nil {
		return err
	}
	a, c := Stack{Range: in.All(), Count: count, Rows: n, Cols: n}, Stack{Range: out.All(), Count: count, Rows: n, Cols: n}
	for _, p := range []Product{
		{A: a, B: a, C: c},
		{A: a, B: a, C: c, TransA: true},
		{A: a, B: a, C: c, TransB: true, D: &a},
		{A: a, B: a, C: c, TransA: true, Symmetric: true},
		{A: a, B: a, C: c, TransB: true, Symmetric: true},
	} {
		p.Alpha, p.Beta = 1, 1
		rec := d.Record("gputrain.kron.check")
		p.Record(rec, d)
		if err := rec.Submit(ctx); err != nil {
			return err
		}
		got := make([]byte, in.Bytes())
		if err := d.Read(ctx, got, out.All()); err != nil {
			return err
		}
		numbers := array.Decoded(c.DType, got)
		for i, m := range want {
			left, right := m, m
			if p.TransA {
				left = transpose(m, n, n)
			}
			if p.TransB {
				right = transpose(m, n, n)
			}
			sum := matmul(left, right, n)
			expected := make([]float32, n*n)
			for k := range sum {
				expected[k] = float32(sum[k])
				if p.D != nil {
					expected[k] = float32(sum[k] + m[k])
				}
			}
			f.result.Compare(fmt.Sprintf("trans %v %v symmetric %v matrix %d", p.TransA, p.TransB, p.Symmetric, i), numbers[i*n*n:(i+1)*n*n], expected)
		}
	}
	return nil
}

func checkBound(ctx context.Context, d *gpu.Device, f *follower, skew bool) error {
	const n = unitSide
	_, random := unitMatrix(5, n)
	m := matmul(random, transpose(random, n, n), n)
	if skew {
		for i, x := range transpose(random, n, n) {
			m[i] = x - random[i]
		}
	}
	narrow := make([]float32, n*n)
	for i := range m {
		narrow[i] = float32(m[i])
		m[i] = float64(narrow[i])
	}
	key := prng.NewKey(6)
	got, err := Bounds(ctx, d, [][]float32{narrow}, n, []prng.Key{key}, skew)
	if err != nil {
		return err
	}
	f.result.Compare("bound", got, []float32{float32(twinBound(key, m, n, skew, Config{BlockSize: n}))})
	return nil
}

func checkProcrustes(ctx context.Context, d *gpu.Device, f *follower) error {
	const n = unitSide
	narrow, wide := unitMatrix(7, n)
	key := prng.NewKey(8)
	got, err := Procrustes(ctx, d, [][]float32{narrow}, n, []prng.Key{key})
	if err != nil {
		return err
	}
	want := make([]float32, n*n)
	for i, x := range procrustesTwin(key, wide, n, Config{BlockSize: n}) {
		want[i] = float32(x)
	}
	f.result.Compare("procrustes", got[0], want)
	return nil
}
