package mxfp4_test

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/hub/mxfp4"
)

const experts, outputs, groups = 3, 5, 2

// unpacked is what the bytes stand for, written as the format is described: sign, two bits of exponent, one of mantissa, times a power of two.
func unpacked(blocks, scales []byte) []float32 {
	inputs := 32 * groups
	out := make([]float32, experts*inputs*outputs)
	for e := range experts {
		for o := range outputs {
			for i := range inputs {
				row := e*outputs + o
				b := blocks[row*inputs/2+i/2]
				if i%2 == 1 {
					b >>= 4
				}
				v := float64(b&1) / 2
				if exponent := b >> 1 & 3; exponent > 0 {
					v = (1 + v) * math.Pow(2, float64(exponent)-1)
				}
				if b&8 != 0 {
					v = -v
				}
				out[(e*inputs+i)*outputs+o] = float32(v * math.Pow(2, float64(scales[row*groups+i/32])-127))
			}
		}
	}
	return out
}

func written(t *testing.T, blocks, scales []byte, shape ...int) *safetensors.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.safetensors")
	data := func(raw []byte) safetensors.Tensor {
		return safetensors.Tensor{DType: "U8", Data: func(w io.Writer) error {
			_, err := w.Write(raw)
			return err
		}}
	}
	b, s := data(blocks), data(scales)
	b.Name, b.Shape, s.Name, s.Shape = "w_blocks", shape, "w_scales", shape[:3]
	var out bytes.Buffer
	require.NoError(t, safetensors.Write(&out, []safetensors.Tensor{b, s}, nil))
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestNumbersAreThoseOfTheFormat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	blocks, scales := make([]byte, experts*outputs*groups*16), make([]byte, experts*outputs*groups)
	for i := range blocks {
		blocks[i] = byte(r.UintN(256))
	}
	for i := range scales {
		scales[i] = byte(110 + r.UintN(30))
	}
	f := written(t, blocks, scales, experts, outputs, groups, 16)
	has := func(name string) bool { _, _, ok := f.Info(name); return ok }
	assert.Equal(t, []string{"w", "w", ""}, []string{mxfp4.Of("w_blocks", has), mxfp4.Of("w_scales", has), mxfp4.Of("other_scales", has)})
	m, err := mxfp4.Open(func(string) *safetensors.File { return f }, "w")
	require.NoError(t, err)
	assert.Equal(t, []int{experts, 32 * groups, outputs}, m.Shape)
	want := unpacked(blocks, scales)
	got := make([]float32, len(want))
	require.NoError(t, m.Read(got, 0))
	assert.Equal(t, want, got)
	for _, first := range []int{1, 317, 639, len(want) - 9} {
		require.NoError(t, m.Read(got[:9], first))
		assert.Equal(t, want[first:first+9], got[:9])
	}
}

func TestShapesThatAreNone(t *testing.T) {
	f := written(t, make([]byte, 8), make([]byte, 1), 1, 1, 1, 8)
	_, err := mxfp4.Open(func(string) *safetensors.File { return f }, "w")
	assert.ErrorContains(t, err, `mxfp4: open: tensor "w": found blocks of shape [1 1 1 8] and scales of [1 1 1], wanted`)
}
