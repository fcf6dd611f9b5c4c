package buffers

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/nf4"
	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

// quantized is a matrix in nf4 as a file has it.
type quantized struct {
	codes  []byte
	maxima []float32
}

func (q quantized) ReadCodes(dst []byte, first int) error {
	copy(dst, q.codes[first/2:])
	return nil
}

func (q quantized) ReadMaxima(dst []float32, first int) error {
	copy(dst, q.maxima[first:])
	return nil
}

// A tree in NF4 has the matrices of layers in four bits and a sixteenth, also where they are larger than a binding, those of a file with its codes and
// maxima, and all else in bf16.
func TestTreeInNF4(t *testing.T) {
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
	quantize := func(x []float32) quantized {
		m := quantized{make([]byte, (len(x)+1)/2), make([]float32, nf4.Blocks(len(x)))}
		nf4.Quantize(m.codes, m.maxima, x)
		return m
	}
	hosts := []Host{
		{Path: "h.0.odd", Shape: []int{7, 33}, Data: data(7 * 33)},
		{Path: "h.0.large", Shape: []int{300, 200}, Data: data(300 * 200)},
		{Path: "h.1.file", Shape: []int{131, 80}, Data: data(131 * 80)},
		{Path: "h.1.norm", Shape: []int{80}, Data: data(80)},
		{Path: "wte", Shape: []int{50, 80}, Data: data(50 * 80)},
	}
	// Its maxima are not those that its numbers would get.
	file := quantized{make([]byte, 131*40), make([]float32, nf4.Blocks(131*80))}
	for i := range file.codes {
		file.codes[i] = byte(rng.Uint32())
	}
	copy(file.maxima, data(len(file.maxima)))
	hosts[2].NF4 = file
	want := map[string][]float32{"h.1.file": stands(hosts[2].Data, file)}
	for _, h := range hosts[:2] {
		want[h.Path] = stands(h.Data, quantize(h.Data))
	}
	for _, h := range hosts[3:] {
		for _, v := range h.Data {
			want[h.Path] = append(want[h.Path], array.DecodeBF16(array.EncodeBF16(v)))
		}
	}
	for _, binding := range []uint64{0, 64 << 10} {
		dev := gputest.Device(t, gputest.WithLimits(gpu.Limits{BindingBytes: binding}))
		tree, err := Upload(dev, "frozen", hosts, NF4)
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
		packed, padding := 7*33+300*200+131*80, (2+len(large.Parts))*nf4Align
		assert.LessOrEqual(t, tree.Bytes(), uint64((packed+padding)*9/16+2*(80+50*80+2*BlockElements)), "bytes")
		_, err = tree.ReadRaw(t.Context(), "wte")
		require.ErrorContains(t, err, "found its bytes in nf4, wanted whole elements")
		tree.Release()
	}
}
