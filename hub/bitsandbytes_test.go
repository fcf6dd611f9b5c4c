package hub

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/hub/bitsandbytes"
	"gputrain/internal/dynamic8"
	"gputrain/internal/nf4"
	. "gputrain/model"
)

// writePacked writes a model as bitsandbytes does, with the matrices of layers in nf4, and gives what these stand for.
func writePacked(t *testing.T, dir string, def Definition, hosts []array.Host, dtype string, double bool) (stands []array.Host) {
	raw := func(name, dtype string, data []byte) safetensors.Tensor {
		return safetensors.Tensor{Name: name, DType: dtype, Shape: []int{len(data)}, Data: func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}}
	}
	var tensors []safetensors.Tensor
	for _, h := range hosts {
		if !(array.Spec{Path: h.Path, Shape: h.Shape}).MatrixOfLayer() {
			stands, tensors = append(stands, h), append(tensors, safetensors.Float32s(h.Path, h.Shape, h.Data))
			continue
		}
		codes, maxima := make([]byte, (len(h.Data)+1)/2), make([]float32, nf4.Blocks(len(h.Data)))
		nf4.Quantize(codes, maxima, h.Data)
		state := map[string]any{"quant_type": "nf4", "blocksize": 64, "dtype": dtype, "shape": h.Shape}
		if nested := dynamic8.Nest(maxima); double {
			tensors = append(tensors, raw(h.Path+".absmax", "U8", nested.Codes), safetensors.Float32s(h.Path+".nested_absmax", []int{len(nested.Tops)}, nested.Tops),
				safetensors.Float32s(h.Path+".nested_quant_map", []int{256}, dynamic8.Map[:]))
			state["nested_blocksize"], state["nested_dtype"], state["nested_offset"] = 256, "float32", nested.Offset
			for i := range maxima {
				maxima[i] = nested.Maximum(i)
			}
		} else {
			tensors = append(tensors, safetensors.Float32s(h.Path+".absmax", []int{len(maxima)}, maxima))
		}
		text, err := json.Marshal(state)
		require.NoError(t, err)
		tensors = append(tensors, raw(h.Path, "U8", codes), raw(h.Path+".quant_state.bitsandbytes__nf4", "U8", text), safetensors.Float32s(h.Path+".quant_map", []int{16}, nf4.Levels[:]))
		number := make([]float32, len(h.Data))
		for i := range number {
			number[i] = bitsandbytes.Round(dtype, nf4.Number(nf4.Code(codes, i), maxima[i/nf4.Block]))
		}
		stands = append(stands, array.Host{Path: h.Path, Shape: h.Shape, OutIn: h.OutIn, Data: number})
	}
	store(t, def, singleFile, dir, tensors)
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(config, &keys))
	keys["quantization_config"] = map[string]any{
		"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": double,
		"bnb_4bit_compute_dtype": dtype, "bnb_4bit_quant_storage": "uint8", "llm_int8_skip_modules": nil,
	}
	config, err = json.Marshal(keys)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	return stands
}

// Weights of bitsandbytes are read as what they stand for, by ranges too, and written whole.
func TestPackedWeights(t *testing.T) {
	for i, def := range smallDefinitions(t) {
		dtype, double := []string{"float32", "bfloat16", "float16"}[i%3], i%2 == 0
		dir := t.TempDir()
		want := writePacked(t, dir, def, Init(def, 7), dtype, double)
		read, hosts, err := ReadHF(dir)
		require.NoError(t, err, def.Kind())
		require.Equal(t, want, hosts)
		s, err := opened(t, dir).Weights(read)
		require.NoError(t, err)
		lazy, drawn := s.Params(0)
		assert.Empty(t, drawn)
		for j, h := range lazy {
			part := make([]float32, (len(want[j].Data)+1)/2)
			first := len(want[j].Data) - len(part)
			require.NoError(t, h.Copy(part, first))
			require.Equal(t, want[j].Data[first:], part)
			assert.Equal(t, array.Spec{Path: h.Path, Shape: h.Shape}.MatrixOfLayer(), h.Packed != nil, h.Path)
		}
		out := filepath.Join(t.TempDir(), "out")
		require.NoError(t, Export(out, read, s.Read, ExportOptions{Like: s}))
		config, err := os.ReadFile(filepath.Join(out, "config.json"))
		require.NoError(t, err)
		assert.NotContains(t, string(config), "quantization_config")
		_, again, err := ReadHF(out)
		require.NoError(t, err)
		assert.Equal(t, want, again, "%s: %s", def.Kind(), fmt.Sprint(dtype))
	}
}
