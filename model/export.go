package model

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
)

// Metadata is what Hugging Face wants to find in the header of model.safetensors.
func Metadata() map[string]string { return map[string]string{"format": "pt"} }

// WriteHF writes config.json and model.safetensors into dir, which it makes if need be. hosts are
// the parameters of def in any order; dtype is "F32", "BF16" or "F16". Files that are there are
// replaced.
func WriteHF(dir string, def Definition, hosts []buffers.Host, dtype string) error {
	byPath := map[string][]float32{}
	for _, h := range hosts {
		byPath[h.Path] = h.Data
	}
	tensors, err := Tensors(def, dtype, func(path string) ([]float32, error) {
		data, ok := byPath[path]
		if !ok {
			return nil, fmt.Errorf("model: export: parameter %q is missing", path)
		}
		return data, nil
	})
	if err != nil {
		return err
	}
	config, err := ConfigJSON(def, dtype)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("model: export: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return fmt.Errorf("model: export: %w", err)
	}
	return writeWeights(filepath.Join(dir, "model.safetensors"), tensors)
}

func writeWeights(name string, tensors []safetensors.Tensor) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("model: export: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = safetensors.Write(w, tensors, Metadata())
	if err == nil {
		err = w.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("model: export %q: %w", name, err)
	}
	return nil
}

// Tensors are the parameters of def as model.safetensors holds them. read is called for
// each when its turn to be written comes, so that one at a time is in memory. A
// GPT-2 is named as on the hub; with an untied head, which the hub's form does not know,
// as Hugging Face saves it, with "transformer." before all but the head.
func Tensors(def Definition, dtype string, read func(path string) ([]float32, error)) ([]safetensors.Tensor, error) {
	encode, ok := encoders[dtype]
	if !ok {
		return nil, errExportDType(dtype)
	}
	untied := false
	params := def.Params()
	for _, p := range params {
		untied = untied || p.Path == "lm_head.weight"
	}
	var tensors []safetensors.Tensor
	for _, p := range params {
		name := p.Path
		if def.Kind() == "gpt2" && untied && name != "lm_head.weight" {
			name = gpt2Prefix + name
		}
		tensors = append(tensors, safetensors.Tensor{Name: name, DType: dtype, Shape: p.Shape, Data: func(w io.Writer) error {
			data, err := read(p.Path)
			if err != nil {
				return err
			}
			return writeFloats(w, data, encode)
		}})
	}
	return tensors, nil
}

func errExportDType(dtype string) error {
	return fmt.Errorf("model: export: dtype %q, want F32, BF16 or F16", dtype)
}

// encoders append one value to bytes, rounded to nearest, ties to even.
var encoders = map[string]func([]byte, float32) ([]byte, error){
	"F32": func(b []byte, v float32) ([]byte, error) {
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(v)), nil
	},
	"BF16": func(b []byte, v float32) ([]byte, error) {
		return binary.LittleEndian.AppendUint16(b, buffers.EncodeBF16(v)), nil
	},
	"F16": func(b []byte, v float32) ([]byte, error) {
		if math.Abs(float64(v)) >= 65520 && !math.IsInf(float64(v), 0) {
			return b, fmt.Errorf("value %g does not fit F16: export as BF16 or F32", v)
		}
		return binary.LittleEndian.AppendUint16(b, encodeF16(v)), nil
	},
}

func writeFloats(w io.Writer, data []float32, encode func([]byte, float32) ([]byte, error)) error {
	const chunk = 1 << 14
	raw := make([]byte, 0, 4*chunk)
	for len(data) > 0 {
		n := min(chunk, len(data))
		raw = raw[:0]
		for _, v := range data[:n] {
			var err error
			if raw, err = encode(raw, v); err != nil {
				return err
			}
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// encodeF16 rounds to IEEE half precision, ties to even. Denormals are kept; too large
// becomes infinite; NaN stays NaN.
func encodeF16(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return sign | 0x7e00
	case magnitude >= 0x477ff000: // 65520, halfway to the next power
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: multiples of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(magnitude))*0x1p24))
	}
	rounded := magnitude + 0xfff + magnitude>>13&1
	return sign | uint16((rounded-112<<23)>>13)
}
