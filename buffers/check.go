package buffers

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"gputrain/buffers/array"
	"gputrain/buffers/prng"
	"gputrain/gpu"
)

// Checks are the self-checks of the kernels of this package against their twins. All but the normal draws must agree to
// the last bit: their error counts the elements that do not.
func Checks() []gpu.Check {
	return []gpu.Check{
		{Name: "buffers.map", Run: checkMap},
		{Name: "buffers.sum", Run: checkSum},
		{Name: "buffers.fill", Run: checkFill},
		{Name: "buffers.cast_nearest", Run: checkNearest},
		{Name: "buffers.cast_widen", Run: checkWiden},
		{Name: "buffers.threefry", Run: checkThreefry},
		{Name: "buffers.normal", Run: checkNormal},
	}
}

// normalTolerance is for normal draws, relative to their size where that is above 1. Most comes from the polynomial's
// last sums, which an adapter may contract: twice 2^-24 each, times the derivative of erfinv's tail.
const normalTolerance = 1e-6

// checkLayout has one leaf with padding, one without, one larger than a row of workgroups.
func checkLayout(dev *gpu.Device) (*Layout, error) {
	return NewLayout([]Spec{
		{Path: "a", Shape: []int{5}}, {Path: "b", Shape: []int{2, 64}}, {Path: "c", Shape: []int{67, 63}}, {Path: "s"},
	}, dev.Limits())
}

// sampleFloats are bit patterns of all kinds: those around the edges of rounding, then random ones.
func sampleFloats(n int) []float32 {
	rng := rand.New(rand.NewPCG(11, 12))
	out := make([]float32, n)
	for i := range out {
		high := []uint32{0, 1, 0x7f, 0x80, 0x3f7f, 0x3f80, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7fff}[i/12%11]
		low := []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff}[i/2%6]
		bits := high<<16 | low | uint32(i%2)<<31
		if i >= 132 {
			bits = rng.Uint32()
		}
		out[i] = math.Float32frombits(bits)
	}
	return out
}

// sampleNumbers are multiples of 1/32 from -8 to 8: short sums of them are exact in f32, in whatever order a driver takes
// them (WGSL lets it reassociate and contract), and they are exact in bf16 up to 4.
func sampleNumbers(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 13))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.IntN(513)-256) / 32
	}
	return out
}

// checkTrees makes trees of one layout and dtypes; release frees those made so far.
func checkTrees(dev *gpu.Device, dtypes ...DType) (trees []*Tree, release func(), err error) {
	release = func() {
		for _, t := range trees {
			t.Release()
		}
	}
	layout, err := checkLayout(dev)
	for i, d := range dtypes {
		var t *Tree
		if err == nil {
			if t, err = NewTree(dev, fmt.Sprintf("check%d", i), layout, d); err == nil {
				trees = append(trees, t)
			}
		}
	}
	return trees, release, err
}

// writeSamples writes consecutive parts of values to the leaves, in their order.
func writeSamples(t *Tree, values []float32) error {
	for _, leaf := range t.layout.leaves {
		if err := t.Write(leaf.Path, values[:leaf.Elements()]); err != nil {
			return err
		}
		values = values[leaf.Elements():]
	}
	return nil
}

// differing compares the slabs of a tree, padding included, with an image made of leaves' stored words.
func differing(ctx context.Context, t *Tree, want func(leaf Leaf, i int) uint32) (gpu.Result, error) {
	var r gpu.Result
	for s := range t.slabs {
		got := make([]byte, t.slabs[s].Bytes())
		if err := t.device.Read(ctx, got, t.Slab(s)); err != nil {
			return r, err
		}
		image := make([]byte, len(got))
		t.eachPart(s, func(leaf Leaf, p Part, bytes []byte) {
			for i := range p.Count {
				word := want(leaf, p.Row*leaf.rowElements()+i)
				if t.dtype == BF16 {
					binary.LittleEndian.PutUint16(bytes[2*i:], uint16(word))
				} else {
					binary.LittleEndian.PutUint32(bytes[4*i:], word)
				}
			}
		}, image)
		size := t.dtype.Bits() / 8
		for at := 0; at < len(got); at += size {
			if string(got[at:at+size]) != string(image[at:at+size]) {
				if r.MaxError++; r.MaxError == 1 {
					r.Worst = fmt.Sprintf("slab %d element %d: %x, want %x", s, at/size, got[at:at+size], image[at:at+size])
				}
			}
		}
	}
	return r, nil
}

// leafStarts maps the leaves to their places in one row of values.
func leafStarts(l *Layout) map[string]int {
	starts, at := map[string]int{}, 0
	for _, leaf := range l.leaves {
		starts[leaf.Path] = at
		at += leaf.Elements()
	}
	return starts
}

func checkMap(ctx context.Context, dev *gpu.Device) (gpu.Result, error) {
	trees, release, err := checkTrees(dev, BF16, F32, BF16)
	defer release()
	if err != nil {
		return gpu.Result{}, err
	}
	dst, a, b := trees[0], trees[1], trees[2]
	n := dst.layout.Elements()
	av, bv, starts := sampleNumbers(n, 1), sampleNumbers(n, 2), leafStarts(dst.layout)
	for i, v := range bv {
		bv[i] = array.DecodeBF16(array.EncodeBF16(v))
	}
	rec := dev.Record("buffers.check.map")
	for _, step := range []func() error{
		func() error { return writeSamples(a, av) },
		func() error { return writeSamples(b, bv) },
		func() error { return Map(rec, dst, "a * 0.5 + b + 1.0", a, b) },
		func() error { return rec.Submit(ctx) },
	} {
		if err := step(); err != nil {
			return gpu.Result{}, err
		}
	}
	return differing(ctx, dst, func(leaf Leaf, i int) uint32 {
		i += starts[leaf.Path]
		return uint32(array.EncodeBF16(av[i]*0.5 + bv[i] + 1))
	})
}

// checkSum adds up five trees, whose sum in f32 depends on the order of its additions: one element in three has other bits from left to right.
func checkSum(ctx context.Context, dev *gpu.Device) (gpu.Result, error) {
	terms, release, err := checkTrees(dev, F32, F32, F32, F32, F32)
	defer release()
	if err != nil {
		return gpu.Result{}, err
	}
	values := make([][]float32, len(terms))
	for i, t := range terms {
		rng := rand.New(rand.NewPCG(uint64(i), 14))
		for range t.layout.Elements() {
			values[i] = append(values[i], float32(rng.NormFloat64()))
		}
		if err := writeSamples(t, values[i]); err != nil {
			return gpu.Result{}, err
		}
	}
	dst := terms[0]
	rec := dev.Record("buffers.check.sum")
	if err := Sum(rec, nil, dst, terms...); err != nil {
		return gpu.Result{}, err
	}
	if err := rec.Submit(ctx); err != nil {
		return gpu.Result{}, err
	}
	starts := leafStarts(dst.layout)
	return differing(ctx, dst, func(leaf Leaf, i int) uint32 {
		i += starts[leaf.Path]
		sum := values[len(values)-1][i]
		for n := len(values) - 2; n >= 0; n-- {
			sum = values[n][i] + sum
		}
		return math.Float32bits(sum)
	})
}

func checkFill(ctx context.Context, dev *gpu.Device) (gpu.Result, error) {
	trees, release, err := checkTrees(dev, BF16)
	defer release()
	if err != nil {
		return gpu.Result{}, err
	}
	rec := dev.Record("buffers.check.fill")
	if err := Fill(rec, trees[0], -math.Pi); err != nil {
		return gpu.Result{}, err
	}
	if err := rec.Submit(ctx); err != nil {
		return gpu.Result{}, err
	}
	return differing(ctx, trees[0], func(Leaf, int) uint32 { return uint32(array.EncodeBF16(-math.Pi)) })
}

// checkCast runs one cast over samples of all kinds of floats.
func checkCast(ctx context.Context, dev *gpu.Device, dst, src DType, cast func(rec *gpu.Recording, dst, src *Tree) error,
	want func(leaf Leaf, i int, f float32) uint32,
) (gpu.Result, error) {
	trees, release, err := checkTrees(dev, dst, src)
	defer release()
	if err != nil {
		return gpu.Result{}, err
	}
	values := sampleFloats(trees[0].layout.Elements())
	if err := writeSamples(trees[1], values); err != nil {
		return gpu.Result{}, err
	}
	rec := dev.Record("buffers.check.cast")
	if err := cast(rec, trees[0], trees[1]); err != nil {
		return gpu.Result{}, err
	}
	if err := rec.Submit(ctx); err != nil {
		return gpu.Result{}, err
	}
	starts := leafStarts(trees[0].layout)
	return differing(ctx, trees[0], func(leaf Leaf, i int) uint32 { return want(leaf, i, values[starts[leaf.Path]+i]) })
}

func checkNearest(ctx context.Context, dev *gpu.Device) (gpu.Result, error) {
	return checkCast(ctx, dev, BF16, F32, Copy, func(_ Leaf, _ int, f float32) uint32 { return uint32(array.EncodeBF16(f)) })
}

func checkWiden(ctx context.Context, dev *gpu.Device) (gpu.Result, error) {
	return checkCast(ctx, dev, F32, BF16, Copy, func(_ Leaf, _ int, f float32) uint32 { return uint32(array.EncodeBF16(f)) << 16 })
}

func checkThreefry(ctx context.Context, dev *gpu.Device) (gpu.Result, error) {
	var r gpu.Result
	key, first := prng.NewKey(43).FoldIn(1), uint64(5)<<32+9
	draws, err := Draws(ctx, dev, key, first, 1000)
	for i, d := range draws {
		at := first + uint64(i)
		want := Draw{key.Bits32(at), key.Uniform(at), d.Normal, key.NormalBF16(at)}
		if d != want {
			if r.MaxError++; r.MaxError == 1 {
				r.Worst = fmt.Sprintf("index %d: %+v, want %+v", at, d, want)
			}
		}
	}
	return r, err
}

func checkNormal(ctx context.Context, dev *gpu.Device) (gpu.Result, error) {
	r := gpu.Result{Tolerance: normalTolerance}
	key := prng.NewKey(44)
	draws, err := Draws(ctx, dev, key, 0, 1<<16)
	for i, d := range draws {
		got, want := float64(d.Normal), float64(key.Normal(uint64(i)))
		e := math.Abs(got-want) / math.Max(1, math.Abs(want))
		if !(e <= r.MaxError) && !math.IsNaN(r.MaxError) {
			r.MaxError, r.Worst = e, fmt.Sprintf("index %d: %v, want %v", i, got, want)
		}
	}
	return r, err
}
