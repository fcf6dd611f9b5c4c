package buffers

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

func submit(t testing.TB, dev *gpu.Device, record func(rec *gpu.Recording) error) {
	t.Helper()
	rec := dev.Record(t.Name())
	require.NoError(t, record(rec))
	require.NoError(t, rec.Submit(context.Background()))
}

// TestMap runs over split leaves and padding, on grids folded to two dimensions too.
func TestMap(t *testing.T) {
	fold := gpu.Limits{BindingBytes: 64 << 10, Workgroups: 3}
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		// Few bits, so that the sums are exact in any order.
		coarse := func(v ...float32) float32 { return float32(math.Round(float64(v[0]*16))) / 16 }
		a, b := mapped(coarse, hosts(manyShapes, 6)), mapped(coarse, hosts(manyShapes, 7))
		ta, tb := upload(t, dev, "a", a, F32), upload(t, dev, "b", b, BF16)
		dst := newTree(t, dev, "dst", ta.Layout(), F32)
		before := dev.Counters().Dispatches
		submit(t, dev, func(rec *gpu.Recording) error { return Map(rec, dst, "a * 2.0 + b + 1.0", ta, tb) })
		assert.EqualValues(t, len(dst.Layout().Slabs()), dev.Counters().Dispatches-before, "one dispatch a slab")
		want := mapped(func(v ...float32) float32 { return v[0]*2 + v[1] + 1 }, a, b)
		requireTree(t, want, dst)

		// In place, a tree named twice, bf16 stored to nearest even.
		submit(t, dev, func(rec *gpu.Recording) error { return Map(rec, tb, "a + b + c + d * 0.0", dst, tb, dst, ta) })
		requireTree(t, mapped(func(v ...float32) float32 { return nearest(v[0] + v[1] + v[0]) }, want, b), tb)
	}, gputest.WithLimits(fold))
}

func TestMapIntegers(t *testing.T) {
	dev := gputest.Device(t)
	layout, err := NewLayout([]Spec{{Path: "v", Shape: []int{5}}}, dev.Limits())
	require.NoError(t, err)
	ids, words, floats := newTree(t, dev, "ids", layout, I32), newTree(t, dev, "words", layout, U32), newTree(t, dev, "floats", layout, F32)
	require.NoError(t, ids.WriteRaw("v", gpu.Bytes([]int32{-2, -1, 0, 1, 2})))
	submit(t, dev, func(rec *gpu.Recording) error {
		if err := Map(rec, words, "bitcast<vec4<u32>>(a * 3)", ids); err != nil {
			return err
		}
		return Map(rec, floats, "vec4<f32>(a) + 0.5", ids)
	})
	got, err := words.ReadRaw(context.Background(), "v")
	require.NoError(t, err)
	assert.Equal(t, gpu.Bytes([]int32{-6, -3, 0, 3, 6}), got)
	f, err := floats.Read(context.Background(), "v")
	require.NoError(t, err)
	assert.Equal(t, []float32{-1.5, -0.5, 0.5, 1.5, 2.5}, f)
}

func TestFill(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		start := hosts(manyShapes, 8)
		for _, d := range []DType{F32, BF16} {
			tree := upload(t, dev, "fill", start, d)
			for _, v := range []float64{1.0 / 3, 0, math.Inf(-1), math.Copysign(0, -1)} {
				submit(t, dev, func(rec *gpu.Recording) error { return Fill(rec, tree, v) })
				f := float32(v)
				if d == BF16 {
					f = nearest(f)
				}
				requireTree(t, mapped(func(...float32) float32 { return f }, start), tree)
			}
		}
	}, small())
	dev := gputest.Device(t)
	layout, err := NewLayout([]Spec{{Path: "v", Shape: []int{2}}}, dev.Limits())
	require.NoError(t, err)
	for d, values := range map[DType][]float64{I32: {math.MinInt32, math.MaxInt32, -1, 0}, U32: {0, 1, math.MaxUint32}} {
		tree := newTree(t, dev, "fill", layout, d)
		for _, v := range values {
			submit(t, dev, func(rec *gpu.Recording) error { return Fill(rec, tree, v) })
			got, err := tree.ReadRaw(context.Background(), "v")
			require.NoError(t, err)
			assert.Equal(t, gpu.Bytes([]int32{int32(int64(v)), int32(int64(v))}), got)
		}
		for _, v := range []float64{0.5, math.NaN(), math.Inf(1), 1 << 40, -1 << 40} {
			assert.ErrorContains(t, Fill(dev.Record("x"), tree, v), "want a whole number that fits "+d.String())
		}
	}
}

func TestCopy(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		hs := hosts(manyShapes, 9)
		half := mapped(nearest, hs)
		src := upload(t, dev, "src", hs, F32)
		same := newTree(t, dev, "same", src.Layout(), F32)
		narrow := newTree(t, dev, "narrow", src.Layout(), BF16)
		wide := newTree(t, dev, "wide", src.Layout(), F32)
		submit(t, dev, func(rec *gpu.Recording) error {
			for _, pair := range [][2]*Tree{{same, src}, {narrow, src}, {wide, narrow}, {src, src}} {
				if err := Copy(rec, pair[0], pair[1]); err != nil {
					return err
				}
			}
			return nil
		})
		requireTree(t, hs, same)
		requireTree(t, half, narrow)
		requireTree(t, half, wide)
		requireTree(t, hs, src)
	}, small())
}

func TestMismatch(t *testing.T) {
	dev := gpu.Dry(gpu.Limits{})
	tree := func(dev *gpu.Device, label string, d DType, specs ...Spec) *Tree {
		layout, err := NewLayout(specs, dev.Limits())
		require.NoError(t, err)
		return newTree(t, dev, label, layout, d)
	}
	p := tree(dev, "params", F32, Spec{Path: "a", Shape: []int{2}}, Spec{Path: "b", Shape: []int{3}})
	for want, other := range map[string]*Tree{
		`tree "g" does not match "params": leaf "b" is missing`:           tree(dev, "g", F32, Spec{Path: "a", Shape: []int{2}}),
		`tree "h" does not match "params": leaf "a": shape [1], want [2]`: tree(dev, "h", F32, Spec{Path: "a", Shape: []int{1}}, Spec{Path: "b", Shape: []int{3}}),
		`tree "i": on another device than "params"`:                       tree(gpu.Dry(gpu.Limits{}), "i", F32, Spec{Path: "a", Shape: []int{2}}, Spec{Path: "b", Shape: []int{3}}),
	} {
		rec := dev.Record("x")
		assert.EqualError(t, Copy(rec, p, other), "buffers: copy: "+want)
		assert.EqualError(t, Map(rec, p, "a", other), "buffers: map: "+want)
	}
	ints := newTree(t, dev, "ints", p.Layout(), I32)
	rec := dev.Record("x")
	assert.EqualError(t, Copy(rec, p, ints), `buffers: copy: tree "params": no cast from i32 to f32`)
	assert.ErrorContains(t, Map(rec, p, "a", make([]*Tree, 27)...), "27 trees, want at most 26")
}

// TestRecorded pins what is recorded, without a device: one dispatch a slab, extents only where there is padding.
func TestRecorded(t *testing.T) {
	dev := gpu.Dry(gpu.Limits{BindingBytes: 2048})
	layout, err := NewLayout([]Spec{{Path: "a", Shape: []int{512}}, {Path: "b", Shape: []int{3}}}, dev.Limits())
	require.NoError(t, err)
	p, g, m := newTree(t, dev, "p", layout, F32), newTree(t, dev, "g", layout, F32), newTree(t, dev, "m", layout, BF16)
	rec := dev.Record("step")
	require.NoError(t, Map(rec, p, "a - 0.1 * b", p, g))
	require.NoError(t, Copy(rec, m, p))
	require.NoError(t, Fill(rec, g, 0))
	require.NoError(t, rec.Err())
	var lines []string
	for line := range strings.Lines(rec.String()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	assert.Equal(t, []string{
		`recording "step"`,
		"0 dispatch gputrain.buffers.map 1x1x1 params 80 0 0 0 src0<gputrain.buffers.g.0[0:2048] dst=gputrain.buffers.p.0[0:2048]",
		"1 dispatch gputrain.buffers.map 1x1x1 params 20 0 0 0 src0<gputrain.buffers.g.1[0:512] extents<gputrain.buffers.p.1.extents[0:4] dst=gputrain.buffers.p.1[0:512]",
		"2 dispatch gputrain.buffers.cast 1x1x1 params 80 0 0 0 src<gputrain.buffers.p.0[0:2048] dst=gputrain.buffers.m.0[0:1024]",
		"3 dispatch gputrain.buffers.cast 1x1x1 params 20 0 0 0 src<gputrain.buffers.p.1[0:512] dst=gputrain.buffers.m.1[0:256]",
		"4 zero gputrain.buffers.g.0[0:2048]",
		"5 zero gputrain.buffers.g.1[0:512]",
	}, lines)
}

// TestSecondRecordingMakesNothing: pipelines and tables are made once.
func TestSecondRecordingMakesNothing(t *testing.T) {
	dev := gputest.Device(t, small())
	src := upload(t, dev, "src", hosts(manyShapes, 13), F32)
	half := newTree(t, dev, "half", src.Layout(), BF16)
	program := func() *gpu.Program {
		rec := dev.Record("x")
		require.NoError(t, Map(rec, src, "a + 1.0", src))
		require.NoError(t, Fill(rec, half, 3))
		require.NoError(t, Copy(rec, half, src))
		p, err := rec.Program(context.Background())
		require.NoError(t, err)
		t.Cleanup(p.Release)
		return p
	}
	program()
	before := dev.Counters()
	p := program()
	between := dev.Counters()
	assert.Equal(t, before.Pipelines, between.Pipelines)
	for range 2 {
		require.NoError(t, p.Submit(context.Background()))
	}
	require.NoError(t, dev.Wait(context.Background()))
	after := dev.Counters()
	assert.Equal(t, between.Pipelines, after.Pipelines)
	assert.Equal(t, between.BindGroups, after.BindGroups)
	assert.Equal(t, between.Buffers, after.Buffers)
}

func TestWrongExpression(t *testing.T) {
	quiet := func(o *gpu.Options) { o.Logger = slog.New(slog.DiscardHandler) }
	dev := gputest.Device(t, quiet)
	tree := upload(t, dev, "x", hosts([]Spec{{Path: "v", Shape: []int{5}}}, 1), F32)
	rec := dev.Record("x")
	require.NoError(t, Map(rec, tree, "a + nonsense", tree))
	assert.ErrorContains(t, rec.Submit(context.Background()), "nonsense")
}

// BenchmarkElementwise reports GB/s, read and written, of one slab of f32.
func BenchmarkElementwise(b *testing.B) {
	for _, n := range []int{1 << 22, 1 << 24, 1<<24 - 100} {
		dev := gputest.Device(b)
		layout, err := NewLayout([]Spec{{Path: "v", Shape: []int{n}}}, dev.Limits())
		require.NoError(b, err)
		x, y, z := newTree(b, dev, "x", layout, F32), newTree(b, dev, "y", layout, F32), newTree(b, dev, "z", layout, F32)
		half := newTree(b, dev, "half", layout, BF16)
		for _, c := range []struct {
			name   string
			bytes  int // an element
			record func(rec *gpu.Recording) error
		}{
			{"copy", 8, func(rec *gpu.Recording) error { return Copy(rec, x, y) }},
			{"map1", 8, func(rec *gpu.Recording) error { return Map(rec, x, "a", y) }},
			{"map3", 16, func(rec *gpu.Recording) error { return Map(rec, x, "a + b * c", x, y, z) }},
			{"fill", 4, func(rec *gpu.Recording) error { return Fill(rec, x, 1) }},
			{"narrow", 6, func(rec *gpu.Recording) error { return Copy(rec, half, x) }},
			{"widen", 6, func(rec *gpu.Recording) error { return Copy(rec, x, half) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				rec := dev.Record(c.name)
				require.NoError(b, c.record(rec))
				p, err := rec.Program(context.Background())
				require.NoError(b, err)
				defer p.Release()
				run := func() {
					require.NoError(b, p.Submit(context.Background()))
					require.NoError(b, dev.Wait(context.Background()))
				}
				run() // cold
				b.SetBytes(int64(c.bytes * n))
				for b.Loop() {
					run()
				}
			})
		}
	}
}

// TestSum adds up some of the leaves, split ones too, on grids folded to two dimensions: from right to left, whether or not one dispatch takes all
// terms. The other leaves stay.
func TestSum(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		var trees []*Tree
		var values [][]Host
		for i := range uint64(6) {
			values = append(values, hosts(manyShapes, 20+i))
			trees = append(trees, upload(t, dev, fmt.Sprint("term", i), values[i], F32))
		}
		for _, n := range []int{1, 4, 6} {
			dst := upload(t, dev, "dst", values[5], F32)
			keep := func(l Leaf) bool { return l.Index%3 != 1 }
			submit(t, dev, func(rec *gpu.Recording) error { return Sum(rec, keep, dst, trees[:n]...) })
			want := mapped(func(v ...float32) float32 {
				sum := v[n-1]
				for i := n - 2; i >= 0; i-- {
					sum = v[i] + sum
				}
				return sum
			}, values...)
			for i, leaf := range dst.Layout().Leaves() {
				if !keep(leaf) {
					want[i] = values[5][i]
				}
			}
			requireTree(t, want, dst)
			whole := len(dst.Layout().Slabs())
			before := dev.Counters().Dispatches
			submit(t, dev, func(rec *gpu.Recording) error { return Sum(rec, nil, dst, trees[:n]...) })
			dispatches, _ := SumWork(n)
			assert.EqualValues(t, dispatches*whole, dev.Counters().Dispatches-before)
			require.NoError(t, trees[n-1].WriteAll(values[n-1])) // it may be spent
		}
		half := newTree(t, dev, "half", trees[0].Layout(), BF16)
		assert.ErrorContains(t, Sum(dev.Record("half"), nil, trees[0], half), "want f32")
		assert.ErrorContains(t, Sum(dev.Record("none"), nil, half), "no terms")
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10, Workgroups: 3}))
}
