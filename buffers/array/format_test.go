package array

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDType(t *testing.T) {
	for d, name := range map[DType]string{F32: "f32", BF16: "bf16", I32: "i32", U32: "u32", NF4: "nf4", NF4Nested: "nf4-nested", U8: "u8"} {
		assert.Equal(t, name, d.String())
		parsed, err := ParseDType(name)
		require.NoError(t, err)
		assert.Equal(t, d, parsed)
	}
	_, err := ParseDType("F32")
	assert.EqualError(t, err, `array: parse dtype: "F32", want f32, bf16, i32, u32, nf4, nf4-nested or u8`)
	assert.Equal(t, 16, BF16.Bits())
	assert.True(t, NF4.Packed() && NF4Nested.Packed() && !BF16.Packed())
	assert.Equal(t, "DType(9)", DType(9).String())
}
