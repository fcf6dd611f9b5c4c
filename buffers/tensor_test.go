package buffers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTensorFloats(t *testing.T) {
	for dtype, raw := range map[DType][]byte{
		F32:  {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0},
		BF16: {0x80, 0x3f, 0, 0xc0},
		I32:  {1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff},
	} {
		tensor := Tensor{Name: "x", DType: dtype, Shape: []int{2, 1}, Read: func(context.Context) ([]byte, error) { return raw, nil }}
		got, err := tensor.Floats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []float32{1, -2}, got, dtype)
		tensor.Shape = []int{3}
		_, err = tensor.Floats(t.Context())
		assert.ErrorContains(t, err, `tensor "x"`)
	}
	tensor := Tensor{DType: U32, Shape: nil, Read: func(context.Context) ([]byte, error) { return []byte{7, 0, 0, 0}, nil }}
	got, err := tensor.Floats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []float32{7}, got)
}
