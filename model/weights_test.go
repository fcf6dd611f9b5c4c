package model

import (
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
		_, hosts, err := readHF(g.dir)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, writeHF(dir, g.def, hosts, "F32"))
		want, err := os.ReadFile(filepath.Join(g.dir, "model.safetensors"))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
		_, again, err := readHF(dir)
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
			_, back, err := readHF(dir)
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
