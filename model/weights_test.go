package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

// writeHF exports arrays of the host.
func writeHF(dir string, def Definition, hosts []array.Host, dtype string) error {
	return Export(dir, def, func(path string) ([]float32, error) {
		for _, h := range hosts {
			if h.Path == path {
				return h.Data, nil
			}
		}
		return nil, fmt.Errorf("parameter %q is missing", path)
	}, ExportOptions{DType: dtype})
}

func TestImportExportIsByteEqual(t *testing.T) {
	for _, name := range goldenNames {
		g := readGolden(t, name)
		_, hosts, err := ReadHF(g.dir)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, writeHF(dir, g.def, hosts, "F32"))
		want, err := os.ReadFile(filepath.Join(g.dir, "model.safetensors"))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
		_, again, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, hosts, again)
	}
}

func TestNarrowExportsAreRounded(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		hosts := Init(def, 3)
		for dtype, step := range map[string]float64{"BF16": 0x1p-8, "F16": 0x1p-11} {
			dir := t.TempDir()
			require.NoError(t, writeHF(dir, def, hosts, dtype))
			_, back, err := ReadHF(dir)
			require.NoError(t, err)
			for i, h := range hosts {
				require.Equal(t, h.Path, back[i].Path)
				for j, v := range h.Data {
					require.InDelta(t, v, back[i].Data[j], math.Abs(float64(v))*step+0x1p-25, "%s %s[%d]", dtype, h.Path, j)
				}
			}
			second := t.TempDir()
			require.NoError(t, writeHF(second, def, back, dtype))
			a, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
			require.NoError(t, err)
			b, err := os.ReadFile(filepath.Join(second, "model.safetensors"))
			require.NoError(t, err)
			assert.Equal(t, a, b, "what was rounded stays")
		}
	}
}

// Every half is its own rounding, and halfway cases go to the even neighbour.
func TestEncodeF16(t *testing.T) {
	widen := func(h uint16) float64 {
		exponent, mantissa := int(h>>10&31), float64(h&1023)
		v := math.Ldexp(1+mantissa/1024, exponent-15)
		if exponent == 0 {
			v = math.Ldexp(mantissa, -24)
		}
		return math.Copysign(v, 1-2*float64(h>>15))
	}
	for h := range uint16(0x7c00) {
		for _, sign := range []uint16{0, 0x8000} {
			require.Equal(t, h|sign, array.EncodeF16(float32(widen(h|sign))), "%#x", h|sign)
		}
		if h+1 < 0x7c00 {
			half := float32((widen(h) + widen(h+1)) / 2)
			require.Equal(t, (h+1)&^1, array.EncodeF16(half), "between %#x and the next", h)
			require.Equal(t, h, array.EncodeF16(math.Nextafter32(half, 0)))
			require.Equal(t, h+1, array.EncodeF16(math.Nextafter32(half, 1e9)))
		}
	}
	assert.Equal(t, uint16(0x7bff), array.EncodeF16(65519))
	assert.Equal(t, uint16(0x7c00), array.EncodeF16(65520))
	assert.Equal(t, uint16(0xfc00), array.EncodeF16(float32(math.Inf(-1))))
	assert.Equal(t, uint16(0x7e00), array.EncodeF16(float32(math.NaN())))
	def := byteGPT(t)
	hosts := Init(def, 1)
	hosts[3].Data[5] = 70000
	err := writeHF(t.TempDir(), def, hosts, "F16")
	require.ErrorContains(t, err, "value 70000 does not fit F16")
	require.ErrorContains(t, err, hosts[3].Path)
}

// store writes tensors and a config.json into a directory.
func store(t *testing.T, def Definition, file string, dir string, tensors []safetensors.Tensor) {
	t.Helper()
	config, err := ConfigJSON(def, "F32")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644))
	f, err := os.Create(filepath.Join(dir, file))
	require.NoError(t, err)
	require.NoError(t, safetensors.Write(f, tensors, nil))
	require.NoError(t, f.Close())
}

func hub(hosts []array.Host, prefix string) []safetensors.Tensor {
	var tensors []safetensors.Tensor
	for _, h := range hosts {
		tensors = append(tensors, safetensors.Float32s(prefix+h.Path, h.Shape, h.Data))
	}
	return tensors
}

func TestImportUnderstandsOtherProgramsFiles(t *testing.T) {
	defs := smallDefinitions(t)
	def, tiedLlama := defs[0], defs[3]
	hosts := Init(def, 9)
	mask := safetensors.Float32s("h.0.attn.bias", []int{1, 1, 2, 2}, make([]float32, 4))
	t.Run("prefix and masks", func(t *testing.T) {
		dir := t.TempDir()
		masked := safetensors.Float32s("transformer.h.1.attn.masked_bias", nil, []float32{-1e4})
		store(t, def, "model.safetensors", dir, append(hub(hosts, "transformer."), mask, masked))
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, hosts, got)
	})
	t.Run("tied copy", func(t *testing.T) {
		dir := t.TempDir()
		wte := hosts[len(hosts)-1]
		require.Equal(t, "wte.weight", wte.Path)
		store(t, def, "model.safetensors", dir, append(hub(hosts, ""), safetensors.Float32s("lm_head.weight", wte.Shape, wte.Data)))
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, hosts, got)
		other := append([]float32{1}, wte.Data[1:]...)
		store(t, def, "model.safetensors", dir, append(hub(hosts, ""), safetensors.Float32s("lm_head.weight", wte.Shape, other)))
		_, _, err = ReadHF(dir)
		require.ErrorContains(t, err, `"lm_head.weight" differs from "wte.weight"`)
	})
	t.Run("rotary frequencies", func(t *testing.T) {
		dir := t.TempDir()
		llamaHosts := Init(tiedLlama, 9)
		store(t, tiedLlama, "model.safetensors", dir, append(hub(llamaHosts, ""),
			safetensors.Float32s("model.layers.0.self_attn.rotary_emb.inv_freq", []int{3}, make([]float32, 3))))
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, llamaHosts, got)
	})
	t.Run("shards", func(t *testing.T) {
		dir := t.TempDir()
		store(t, def, "model-00001-of-00002.safetensors", dir, hub(hosts[:7], ""))
		store(t, def, "model-00002-of-00002.safetensors", dir, hub(hosts[7:], ""))
		where := map[string]string{}
		for i, h := range hosts {
			where[h.Path] = "model-00001-of-00002.safetensors"
			if i >= 7 {
				where[h.Path] = "model-00002-of-00002.safetensors"
			}
		}
		index := func(where map[string]string) {
			raw, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": where})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), raw, 0o644))
		}
		index(where)
		_, got, err := ReadHF(dir)
		require.NoError(t, err)
		assert.Equal(t, hosts, got)
		for _, file := range []string{"../model.safetensors", "/etc/passwd", "..", "a/b"} {
			where["wte.weight"] = file
			index(where)
			_, _, err = ReadHF(dir)
			require.ErrorContains(t, err, "want a name in the same directory")
		}
		where["wte.weight"] = "model-00003-of-00002.safetensors"
		index(where)
		_, _, err = ReadHF(dir)
		require.ErrorIs(t, err, os.ErrNotExist)
		where["wte.weight"] = "model-00002-of-00002.safetensors"
		store(t, def, "model-00001-of-00002.safetensors", dir, hub(hosts[:8], ""))
		index(where)
		_, _, err = ReadHF(dir)
		require.ErrorContains(t, err, fmt.Sprintf("tensor %q is in two files", hosts[7].Path))
		index(nil)
		_, _, err = ReadHF(dir)
		require.ErrorContains(t, err, "weight_map is empty")
	})
}

func TestImportErrorsNameTheTensors(t *testing.T) {
	def := smallDefinitions(t)[0]
	hosts := Init(def, 9)
	good := hub(hosts, "")
	bad := func(tensors []safetensors.Tensor) error {
		dir := t.TempDir()
		store(t, def, "model.safetensors", dir, tensors)
		_, _, err := ReadHF(dir)
		return err
	}
	require.NoError(t, bad(good))
	require.ErrorContains(t, bad(good[2:]), fmt.Sprintf("%q is missing; %q is missing", hosts[0].Path, hosts[1].Path))
	require.ErrorContains(t, bad(append(good[:len(good):len(good)], safetensors.Float32s("h.2.ln_1.weight", []int{8}, make([]float32, 8)))),
		`"h.2.ln_1.weight" is no parameter of this model`)
	turned := append(good[:len(good)-1:len(good)-1], safetensors.Float32s("wte.weight", []int{8, 13}, hosts[len(hosts)-1].Data))
	require.ErrorContains(t, bad(turned), `"wte.weight": shape [8 13], want [13 8]`)
	require.ErrorContains(t, bad(append(good[:len(good):len(good)], hub(hosts[:1], "transformer.")...)), "are the same parameter")
	require.ErrorContains(t, bad(good[:4]), "and ", "a long list is cut")
	whole := safetensors.Int32s("wte.weight", []int{13, 8}, make([]int32, 104))
	require.ErrorContains(t, bad(append(good[:len(good)-1:len(good)-1], whole)), "I32")

	dir := t.TempDir()
	store(t, def, "model.safetensors", dir, good)
	raw, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), raw[:len(raw)-5], 0o644))
	_, _, err = ReadHF(dir)
	require.ErrorContains(t, err, "model.safetensors")
	require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
	_, _, err = ReadHF(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestExportErrors(t *testing.T) {
	def := smallDefinitions(t)[1]
	hosts := Init(def, 1)
	require.ErrorContains(t, writeHF(t.TempDir(), def, hosts[1:], "F32"), fmt.Sprintf("parameter %q is missing", hosts[0].Path))
	require.ErrorContains(t, writeHF(t.TempDir(), def, hosts, "F8"), `dtype "F8", want F32, BF16 or F16`)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.Error(t, writeHF(file, def, hosts, "F32"))
	tensors, err := Tensors(def, "F32", func(string) ([]float32, error) { return nil, errors.New("no such disk") })
	require.NoError(t, err)
	require.ErrorContains(t, safetensors.Write(io.Discard, tensors, nil), "no such disk")
	var names []string
	for _, x := range tensors {
		names = append(names, x.Name)
	}
	assert.Contains(t, names, "lm_head.weight")
	assert.Contains(t, strings.Join(names, " "), "transformer.wte.weight", "with a head of its own, as Hugging Face saves it")
}
