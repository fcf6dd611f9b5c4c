package buffers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// small makes every leaf above 16384 elements a split one.
func small() gputest.Option { return gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10}) }

// manyShapes has a leaf of each kind under the small limits, also with an odd number of halves in every part.
var manyShapes = []Spec{
	{Path: "empty", Shape: []int{3, 0, 2}},
	{Path: "matrix", Shape: []int{129, 65}},
	{Path: "rows", Shape: []int{5, 9001}}, // one row of odd length a slab
	{Path: "scalar", Shape: nil},
	{Path: "split", Shape: []int{700, 31}},
	{Path: "vector", Shape: []int{3}},
	{Path: "whole", Shape: []int{16384}},
}

func hosts(specs []Spec, seed uint64) []Host {
	rng := rand.New(rand.NewPCG(seed, 5))
	out := make([]Host, len(specs))
	for i, s := range specs {
		n, err := elementCount(s.Shape)
		if err != nil {
			panic(err)
		}
		out[i] = Host{Path: s.Path, Shape: s.Shape, Data: make([]float32, n)}
		for j := range out[i].Data {
			out[i].Data[j] = float32(rng.NormFloat64())
		}
	}
	return out
}

// mapped applies f to every element of equal lists of arrays.
func mapped(f func(v ...float32) float32, lists ...[]Host) []Host {
	out := make([]Host, len(lists[0]))
	for i, h := range lists[0] {
		out[i] = Host{Path: h.Path, Shape: h.Shape, Data: make([]float32, len(h.Data))}
		v := make([]float32, len(lists))
		for j := range h.Data {
			for k := range lists {
				v[k] = lists[k][i].Data[j]
			}
			out[i].Data[j] = f(v...)
		}
	}
	return out
}

func nearest(v ...float32) float32 { return array.DecodeBF16(array.EncodeBF16(v[0])) }

func upload(t testing.TB, dev *gpu.Device, label string, hs []Host, d DType) *Tree {
	t.Helper()
	tree, err := Upload(dev, label, hs, d)
	require.NoError(t, err)
	t.Cleanup(tree.Release)
	return tree
}

func newTree(t testing.TB, dev *gpu.Device, label string, layout *Layout, d DType) *Tree {
	t.Helper()
	tree, err := NewTree(dev, label, layout, d)
	require.NoError(t, err)
	t.Cleanup(tree.Release)
	return tree
}

// requireTree compares every element and every byte of padding, bit by bit.
func requireTree(t testing.TB, want []Host, tree *Tree) {
	t.Helper()
	starts := map[string][]float32{}
	for _, h := range want {
		starts[h.Path] = h.Data
	}
	r, err := differing(context.Background(), tree, func(leaf Leaf, i int) uint32 {
		if tree.DType() == BF16 {
			return uint32(array.EncodeBF16(starts[leaf.Path][i]))
		}
		return math.Float32bits(starts[leaf.Path][i])
	})
	require.NoError(t, err)
	require.Zero(t, r.MaxError, "elements differ; %s", r.Worst)
	got, err := tree.Download(context.Background())
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i, h := range got {
		require.Equal(t, want[i].Path, h.Path)
		require.True(t, slices.Equal(want[i].Shape, h.Shape), "leaf %q: shape %v, want %v", h.Path, h.Shape, want[i].Shape)
		require.Equal(t, len(want[i].Data), len(h.Data))
		for j := range h.Data {
			if h.Data[j] != want[i].Data[j] {
				t.Fatalf("leaf %q element %d: %v, want %v", h.Path, j, h.Data[j], want[i].Data[j])
			}
		}
	}
}

// TestComparatorRejects flips one bit of one element, then one of the padding.
func TestComparatorRejects(t *testing.T) {
	dev := gputest.Device(t)
	hs := hosts([]Spec{{Path: "v", Shape: []int{5}}}, 1)
	tree := upload(t, dev, "x", hs, F32)
	for _, at := range []uint64{8, 40} {
		require.NoError(t, tree.WriteAll(hs))
		requireTree(t, hs, tree)
		require.NoError(t, dev.Write(tree.slabs[0].Range(at, 4), []byte{1, 2, 3, 4}))
		r, err := differing(context.Background(), tree, func(_ Leaf, i int) uint32 { return math.Float32bits(hs[0].Data[i]) })
		require.NoError(t, err)
		require.EqualValues(t, 1, r.MaxError)
		require.Contains(t, r.Worst, fmt.Sprintf("slab 0 element %d: 01020304", at/4))
	}
}

func TestTransferOfWholeTrees(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		hs := hosts(manyShapes, 2)
		for _, d := range []DType{F32, BF16} {
			want := hs
			if d == BF16 {
				want = mapped(nearest, hs)
			}
			before := dev.Counters()
			tree := upload(t, dev, "whole."+d.String(), hs, d)
			slabs := tree.Layout().Slabs()
			require.Greater(t, len(slabs), 4, "the leaves are split")
			after := dev.Counters()
			assert.Equal(t, tree.Bytes(), after.WrittenBytes-before.WrittenBytes)
			assert.Equal(t, tree.Bytes(), after.LiveBytes-before.LiveBytes)
			requireTree(t, want, tree)
			before = dev.Counters()
			_, err := tree.Download(context.Background())
			require.NoError(t, err)
			assert.EqualValues(t, len(slabs), dev.Counters().Readbacks-before.Readbacks, "one transfer a slab")
			for _, h := range want {
				got, err := tree.Read(context.Background(), h.Path)
				require.NoError(t, err)
				require.Equal(t, h.Data, got, h.Path)
			}
			for i := range slabs {
				assert.Equal(t, fmt.Sprintf("gputrain.buffers.whole.%v.%d", d, i), tree.Slab(i).Buffer.Label())
			}
		}
	}, small())
}

// TestWriteLeaf writes leaf by leaf, in an order of its own, and sees that the neighbours stay.
func TestWriteLeaf(t *testing.T) {
	dev := gputest.Device(t, small())
	layout, err := NewLayout(manyShapes, dev.Limits())
	require.NoError(t, err)
	for _, d := range []DType{F32, BF16} {
		tree := newTree(t, dev, "leaf", layout, d)
		want := mapped(func(...float32) float32 { return 0 }, hosts(manyShapes, 3))
		requireTree(t, want, tree)
		values := mapped(nearest, hosts(manyShapes, 3))
		for i := range values {
			at := (i*3 + 1) % len(values)
			require.NoError(t, tree.Write(values[at].Path, values[at].Data))
			want[at] = values[at]
			requireTree(t, want, tree)
		}
	}
}

func TestIntegersAndRaw(t *testing.T) {
	dev := gputest.Device(t, small())
	ctx := context.Background()
	layout, err := NewLayout(manyShapes, dev.Limits())
	require.NoError(t, err)
	values := make([]int32, 700*31)
	for i := range values {
		values[i] = int32(i) * -7919
	}
	for _, d := range []DType{I32, U32} {
		tree := newTree(t, dev, "ints", layout, d)
		require.NoError(t, tree.WriteRaw("split", gpu.Bytes(values)))
		raw, err := tree.ReadRaw(ctx, "split")
		require.NoError(t, err)
		require.Equal(t, gpu.Bytes(values), raw)
		assert.ErrorContains(t, tree.Write("split", make([]float32, len(values))), "dtype "+d.String()+", want f32, bf16 or nf4")
		_, err = tree.Read(ctx, "split")
		assert.ErrorContains(t, err, "want f32, bf16 or nf4")
		_, err = tree.Download(ctx)
		assert.ErrorContains(t, err, "want f32, bf16 or nf4")
		assert.ErrorContains(t, tree.WriteAll(hosts(manyShapes, 1)), "want f32, bf16 or nf4")
	}
	tree := newTree(t, dev, "raw", layout, BF16)
	odd := []byte{1, 2, 3, 4, 5, 6}
	require.NoError(t, tree.WriteRaw("vector", odd))
	raw, err := tree.ReadRaw(ctx, "vector")
	require.NoError(t, err)
	assert.Equal(t, odd, raw)
}

func TestTransferErrors(t *testing.T) {
	dev := gpu.Dry(gpu.Limits{})
	specs := []Spec{{Path: "a", Shape: []int{2, 3}}, {Path: "b", Shape: nil}}
	good := hosts(specs, 4)
	layout, err := NewLayout(specs, dev.Limits())
	require.NoError(t, err)
	tree := newTree(t, dev, "x", layout, F32)
	assert.EqualError(t, tree.Write("c", nil), `buffers: write: tree "x": no leaf "c"`)
	assert.EqualError(t, tree.Write("a", make([]float32, 5)), `buffers: write: tree "x": leaf "a": 5 elements, want 6 of shape [2 3]`)
	assert.EqualError(t, tree.WriteRaw("a", make([]byte, 23)), `buffers: write: tree "x": leaf "a": 23 bytes, want 24 of f32 [2 3]`)
	_, err = tree.Read(context.Background(), "c")
	assert.ErrorContains(t, err, `no leaf "c"`)
	for want, hs := range map[string][]Host{
		`leaf "b" is missing`:                 good[:1],
		`no leaf "c"`:                         append(good[:2:2], Host{Path: "c"}),
		`leaf "a": given twice`:               append(good[:2:2], good[0]),
		`leaf "a": shape [3 2], want [2 3]`:   {{Path: "a", Shape: []int{3, 2}, Data: make([]float32, 6)}, good[1]},
		`leaf "a": 5 elements, want 6 of sha`: {{Path: "a", Shape: []int{2, 3}, Data: make([]float32, 5)}, good[1]},
	} {
		assert.ErrorContains(t, tree.WriteAll(hs), want)
	}
	_, err = Upload(dev, "x", []Host{{Path: "a", Shape: []int{2}, Data: []float32{1}}}, F32)
	assert.ErrorContains(t, err, `leaf "a": 1 elements, want 2`)
	_, err = Upload(dev, "x", []Host{{Path: ""}}, F32)
	assert.ErrorContains(t, err, "path is empty")
	_, err = Upload(dev, "x", good, I32)
	assert.ErrorContains(t, err, "want f32, bf16 or nf4")
	assert.Equal(t, tree.Bytes(), dev.Counters().LiveBytes, "the failed ones are released")
	_, err = NewTree(dev, "x", layout, DType(9))
	assert.ErrorContains(t, err, "DType(9) is unknown")
}

func TestTreeThatDoesNotFit(t *testing.T) {
	layout, err := NewLayout([]Spec{{Path: "a", Shape: []int{1 << 14}}, {Path: "b", Shape: []int{1 << 14}}}, limits(64<<10))
	require.NoError(t, err)

	dev := gpu.Dry(gpu.Limits{BindingBytes: 32 << 10})
	_, err = NewTree(dev, "x", layout, F32)
	var limit *gpu.LimitError
	require.True(t, errors.As(err, &limit), "%v", err)
	assert.Equal(t, gpu.LimitError{Subject: `slab "gputrain.buffers.x.0"`, Bytes: 64 << 10, Limit: 32 << 10, Name: "BindingBytes"}, *limit)
	newTree(t, dev, "y", layout, BF16) // half of it fits

	dev = gputest.Device(t, gputest.WithMemoryLimit(100<<10))
	_, err = NewTree(dev, "x", layout, F32)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	assert.ErrorContains(t, err, `buffers: tree "x": 131072 bytes in 2 slabs of f32: `)
	assert.Zero(t, dev.Counters().LiveBytes, "the first slab is given back")
}

// TestEmbeddingOfRealSize has the one leaf that does not fit a binding of 128 MiB.
func TestEmbeddingOfRealSize(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 154 MB")
	}
	dev := gputest.Device(t)
	if dev.Limits().BindingBytes > 128<<20 {
		t.Skipf("the adapter binds %d bytes", dev.Limits().BindingBytes)
	}
	ctx := context.Background()
	layout, err := NewLayout([]Spec{{Path: "wte", Shape: []int{50257, 768}}, {Path: "b", Shape: []int{3}}}, dev.Limits())
	require.NoError(t, err)
	tree := newTree(t, dev, "gpt2", layout, F32)
	values := make([]float32, 50257*768)
	for i := range values {
		values[i] = float32(i % 65521)
	}
	require.NoError(t, tree.Write("wte", values))
	rec := dev.Record("embedding")
	require.NoError(t, Map(rec, tree, "a + 1.0", tree))
	require.NoError(t, rec.Submit(ctx))
	got, err := tree.Read(ctx, "wte")
	require.NoError(t, err)
	for i := range values {
		if got[i] != values[i]+1 {
			t.Fatalf("element %d: %v, want %v", i, got[i], values[i]+1)
		}
	}
	b, err := tree.Read(ctx, "b")
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 1, 1}, b)
}
