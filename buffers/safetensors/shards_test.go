package safetensors

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	var tensors []Tensor
	for i, n := range []int{2, 3, 1, 10, 0, 4, 2} { // times 4 bytes
		tensors = append(tensors, Float32s(fmt.Sprintf("t%d", i), []int{n}, make([]float32, n)))
	}
	shards, index, err := Split("model", tensors, 24)
	require.NoError(t, err)
	var dealt [][]string
	for i, s := range shards {
		assert.Equal(t, fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, 3), s.Name)
		var names []string
		for _, tensor := range s.Tensors {
			names = append(names, tensor.Name)
		}
		dealt = append(dealt, names)
	}
	assert.Equal(t, [][]string{{"t0", "t1", "t2"}, {"t3"}, {"t4", "t5", "t6"}}, dealt, "full to the byte; one too long for any is alone")
	var read struct {
		Metadata struct {
			TotalSize int `json:"total_size"`
		} `json:"metadata"`
		Files map[string]string `json:"weight_map"`
	}
	require.NoError(t, json.Unmarshal(index, &read))
	assert.Equal(t, 4*22, read.Metadata.TotalSize)
	assert.Len(t, read.Files, 7)
	assert.Equal(t, "model-00003-of-00003.safetensors", read.Files["t4"])

	shards, index, err = Split("model", tensors, 88)
	require.NoError(t, err)
	assert.Nil(t, index)
	require.Len(t, shards, 1)
	assert.Equal(t, "model.safetensors", shards[0].Name)
	assert.Len(t, shards[0].Tensors, 7)
	shards, _, err = Split("model", nil, 88)
	require.NoError(t, err)
	assert.Len(t, shards, 1)
	shards, _, err = Split("model", tensors, 0)
	require.NoError(t, err)
	require.Len(t, shards, 1)
	_, _, err = Split("model", []Tensor{{Name: "x", DType: "F7"}}, 1)
	require.ErrorContains(t, err, `tensor "x"`)
}
