package safetensors

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// FuzzParse: whatever the bytes, Parse returns; what it accepts can be read whole, covers the data exactly, and survives
// being written and parsed again.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(file(`{}`, nil))
	f.Add(file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, make([]byte, 4)))
	f.Add(file(`{"a":{"dtype":"BF16","shape":[1,2],"data_offsets":[2,6]},"b":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}`, make([]byte, 6)))
	f.Add(file(`{"a":{"dtype":"I32","shape":[0,9223372036854775807],"data_offsets":[0,0]}}`, nil))
	f.Add(file(`{"a":{"dtype":"U32","shape":[-1],"data_offsets":[0,1e9]}}`, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		frugal.Parse(t, len(data), func() {
			parsed, err := Parse(data)
			if err != nil {
				return
			}
			total := 0
			var tensors []Tensor
			for _, name := range parsed.Names() {
				raw, err := parsed.Bytes(name)
				require.NoError(t, err)
				all, err := io.ReadAll(raw)
				require.NoError(t, err)
				total += len(all)
				dtype, shape, _ := parsed.Info(name)
				if dtype == "F32" || dtype == "F16" || dtype == "BF16" {
					values, err := parsed.Float32(name)
					require.NoError(t, err)
					require.Len(t, values, len(all)/int(elementBytes[dtype]))
				}
				tensors = append(tensors, Tensor{Name: name, DType: dtype, Shape: shape, Data: func(w io.Writer) error {
					_, err := w.Write(all)
					return err
				}})
			}
			require.Equal(t, len(data)-int(parsed.base), total)
			var out bytes.Buffer
			if err := Write(&out, tensors, parsed.Metadata()); err != nil {
				require.ErrorContains(t, err, "name is empty or reserved")
				return
			}
			_, err = Parse(out.Bytes())
			require.NoError(t, err)
		})
	})
}
