package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gputrain/buffers/nf4/bitsandbytes"
	"gputrain/buffers/safetensors"
)

// quantizedWeights reads how weights are stored quantized, whoever did it: nf4 of bitsandbytes is read, and forgotten, as
// all that is written is whole. Everything else is refused.
func (c *ConfigReader) quantizedWeights() {
	for _, key := range []string{"quantization_config", "compression_config"} {
		if !c.has(key) || string(c.fields[key]) == "{}" {
			continue
		}
		q := newConfigReader(c.object(key))
		by := q.text("quant_method", "")
		if by == "" {
			by = "some method"
		}
		if by == "bitsandbytes" || by == "some method" && q.Flag("load_in_4bit", false) {
			if by = q.bitsandbytes(); by == "" {
				delete(c.fields, key)
				continue
			}
		}
		c.errs = append(c.errs, fmt.Errorf("model: config: %s: found weights quantized by %s, wanted whole ones, or nf4 of bitsandbytes: take the model that was quantized", key, by))
	}
}

// bitsandbytes says which of its formats a quantization_config asks for, "" for nf4. The matrices that it skips, and whether
// maxima are nested, the files tell of themselves.
func (c *ConfigReader) bitsandbytes() string {
	kind := c.text("bnb_4bit_quant_type", "fp4") // as transformers has it where none is named
	four, eight := c.Flag("load_in_4bit", true), c.Flag("load_in_8bit", false)
	switch {
	case len(c.errs) > 0:
		return "bitsandbytes (" + errors.Join(c.errs...).Error() + ")"
	case eight:
		return "bitsandbytes in 8 bits"
	case four && kind != "nf4":
		return "bitsandbytes in " + kind
	}
	return ""
}

// tensor is a parameter in a file: a safetensors file, or another that reads it.
type tensor struct {
	name  string
	dtype string // "F32", "BF16" or "F16" of what can be read; of a matrix in nf4 what its numbers are rounded to
	shape []int
	file  *safetensors.File
	codes *bitsandbytes.Matrix // nil: it is whole
	other func(dst []float32, first int) error
}

// weights are the tensors of files, by their full names.
type weights map[string]*tensor

// wholeTypes are the names of bitsandbytes.DTypes in files.
var wholeTypes = map[string]string{"float32": "F32", "bfloat16": "BF16", "float16": "F16"}

// tensorsOf lists the tensors of files. Those that only say what a matrix in nf4 stands for are none of their own.
func tensorsOf(files []*safetensors.File) (weights, error) {
	in := map[string]*safetensors.File{}
	for _, f := range files {
		for _, name := range f.Names() {
			if in[name] != nil {
				return nil, fmt.Errorf("tensor %q is in two files", name)
			}
			in[name] = f
		}
	}
	w := weights{}
	packed := map[string]bool{}
	for name, f := range in {
		if of := bitsandbytes.Of(name); in[of] != nil {
			packed[of] = true
			continue
		}
		w[name] = tensorIn(f, name)
	}
	for _, name := range slices.Sorted(maps.Keys(packed)) {
		m, err := bitsandbytes.Open(func(tensor string) *safetensors.File { return in[tensor] }, name)
		if err != nil {
			return nil, err
		}
		if w[name] == nil {
			return nil, fmt.Errorf("tensor %q: found it to say of another what it stands for, and another to say that of it", name)
		}
		w[name].codes, w[name].shape, w[name].dtype = m, m.Shape, wholeTypes[m.DType]
	}
	return w, nil
}

// tensorIn is a tensor that a file has whole.
func tensorIn(f *safetensors.File, name string) *tensor {
	t := &tensor{name: name, file: f}
	t.dtype, t.shape, _ = f.Info(name)
	return t
}

// read gives numbers from one on, widened.
func (t *tensor) read(dst []float32, first int) error {
	switch {
	case t.codes != nil:
		return t.codes.Read(dst, first)
	case t.other != nil:
		return t.other(dst, first)
	}
	return t.file.Float32At(t.name, dst, first)
}
