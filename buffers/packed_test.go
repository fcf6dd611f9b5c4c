package buffers

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/internal/dynamic8"
	"gputrain/internal/gputest"
	"gputrain/internal/nf4"
)

// quantized is a matrix in nf4 as a file has it.
type quantized struct {
	codes  []byte
	maxima []float32
	nested *dynamic8.Nested
}

func (q quantized) Load() string { return NF4.Format().Load }

func (q quantized) Nested() (*dynamic8.Nested, error) { return q.nested, nil }

func (q quantized) ReadCodes(dst []byte, first int) error {
	copy(dst, q.codes[first/2:])
	return nil
}

func (q quantized) ReadMaxima(dst []float32, first int) error {
	copy(dst, q.maxima[first:])
	return nil
}

// A tree in nf4 has the matrices of layers in four bits and a maximum a block, also where they are larger than a binding, those of a file with its codes
// and maxima, and all else in bf16. A tree of its leaves has the same, wherever they lie.
func TestTreeInNF4(t *testing.T) {
	for _, kept := range []DType{NF4, NF4Nested} {
		t.Run(kept.String(), func(t *testing.T) { testTreeInNF4(t, kept) })
	}
}

func testTreeInNF4(t *testing.T, kept DType) {
	rng := rand.New(rand.NewPCG(1, 2))
	data := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	stands := func(x []float32, m quantized) []float32 {
		out := make([]float32, len(x))
		for i := range out {
			out[i] = nf4.Levels[nf4.Code(m.codes, i)] * m.maxima[i/nf4.Block]
		}
		return out
	}
	// nested has the maxima that are left of those of a matrix.
	nested := func(m quantized) quantized {
		n := dynamic8.Nest(m.maxima)
		m.nested, m.maxima = &n, slices.Clone(m.maxima)
		for i := range m.maxima {
			m.maxima[i] = n.Maximum(i)
		}
		return m
	}
	quantize := func(x []float32) quantized {
		m := quantized{codes: make([]byte, (len(x)+1)/2), maxima: make([]float32, nf4.Blocks(len(x)))}
		nf4.Quantize(m.codes, m.maxima, x)
		if kept == NF4Nested {
			m = nested(m)
		}
		return m
	}
	hosts := []Host{
		{Path: "h.0.odd", Shape: []int{7, 33}, Data: data(7 * 33)},
		{Path: "h.0.large", Shape: []int{300, 256}, Data: data(300 * 256)},
		{Path: "h.1.file", Shape: []int{300, 80}, Data: data(300 * 80)},
		{Path: "h.1.nested", Shape: []int{300, 80}, Data: data(300 * 80)},
		{Path: "h.1.norm", Shape: []int{80}, Data: data(80)},
		{Path: "wte", Shape: []int{50, 80}, Data: data(50 * 80)},
	}
	// Its maxima are not those that its numbers would get.
	file := quantized{codes: make([]byte, 300*40), maxima: make([]float32, nf4.Blocks(300*80))}
	for i := range file.codes {
		file.codes[i] = byte(rng.Uint32())
	}
	copy(file.maxima, data(len(file.maxima)))
	hosts[2].Packed = file
	again := nested(file)
	again.nested.Offset, again.nested.Tops[0] = 7, 3 // not what nesting gives
	for i := range again.maxima {
		again.maxima[i] = again.nested.Maximum(i)
	}
	hosts[3].Packed = again
	if kept == NF4Nested {
		file = nested(file)
	}
	want := map[string][]float32{"h.1.file": stands(hosts[2].Data, file), "h.1.nested": stands(hosts[3].Data, again)}
	for _, h := range hosts[:2] {
		want[h.Path] = stands(h.Data, quantize(h.Data))
	}
	for _, h := range hosts[4:] {
		for _, v := range h.Data {
			want[h.Path] = append(want[h.Path], array.DecodeBF16(array.EncodeBF16(v)))
		}
	}
	for _, binding := range []uint64{0, 128 << 10} {
		dev := gputest.Device(t, gputest.WithLimits(gpu.Limits{BindingBytes: binding}))
		tree, err := Upload(dev, "frozen", hosts, kept)
		require.NoError(t, err)
		large, _ := tree.Layout().Leaf("h.0.large")
		assert.Equal(t, binding > 0, len(large.Parts) > 1)
		all, err := tree.Download(t.Context())
		require.NoError(t, err)
		require.Len(t, all, len(hosts))
		for _, h := range all {
			assert.Equal(t, want[h.Path], h.Data, h.Path)
			one, err := tree.Read(t.Context(), h.Path)
			require.NoError(t, err)
			assert.Equal(t, want[h.Path], one, h.Path)
		}
		for _, h := range all {
			leaf, err := tree.Host(t.Context(), h.Path)
			require.NoError(t, err)
			part := make([]float32, len(h.Data)/2)
			require.NoError(t, leaf.Copy(part, len(h.Data)/3))
			assert.Equal(t, h.Data[len(h.Data)/3:][:len(part)], part, h.Path)
		}
		copied := copyOf(t, tree, gputest.Device(t, gputest.WithLimits(gpu.Limits{BindingBytes: 128<<10 - binding})))
		for _, h := range all {
			one, err := copied.Read(t.Context(), h.Path)
			require.NoError(t, err)
			assert.Equal(t, h.Data, one, h.Path)
		}
		packed, padding := 7*33+300*256+2*300*80, (3+len(large.Parts))*max(kept.Run(), 4096)
		assert.LessOrEqual(t, tree.Bytes(), uint64(float64(packed+padding)*map[DType]float64{NF4: 0.5625, NF4Nested: 0.5162}[kept])+2*(80+50*80+2*BlockElements), "bytes")
		_, err = tree.ReadRaw(t.Context(), "wte")
		require.ErrorContains(t, err, "found its bytes in nf4, wanted whole elements")
		tree.Release()
		copied.Release()
	}
}

// copyOf is a tree of the leaves of another one.
func copyOf(t *testing.T, tree *Tree, dev *gpu.Device) *Tree {
	var hosts []Host
	for _, leaf := range tree.Layout().Leaves() {
		h, err := tree.Host(t.Context(), leaf.Path)
		require.NoError(t, err)
		hosts = append(hosts, h)
	}
	out, err := Upload(dev, "copy", hosts, tree.DType())
	require.NoError(t, err)
	return out
}

// Parts begin at a group of nested maxima.
func TestPartsThatCutGroups(t *testing.T) {
	_, err := NewLayoutFor(NF4Nested, []Spec{{Path: "h.0.w", Shape: []int{300, 200}}}, gpu.Limits{BindingBytes: 64 << 10})
	assert.ErrorContains(t, err, `leaf "h.0.w": shape [300 200] in parts that cut runs of 16384 elements, wanted it in bf16 or f32`)
}
