package model

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/internal/atomicfile"
)

// Names of the files with the weights.
const (
	weightsStem = "model"
	indexSuffix = ".safetensors.index.json"
)

// Metadata is what Hugging Face wants to find in the header of model.safetensors.
func Metadata() map[string]string { return map[string]string{"format": "pt"} }

// ExportOptions say how a model is written. The zero value is F32 in files of at most 5 GB.
type ExportOptions struct {
	DType      string  // "F32", "BF16" or "F16"; default that of Like, or F32
	ShardBytes uint64  // weights that take more are split, with an index
	Base       string  // what a PEFT directory calls its base; default what it was called where the adapter came from
	Like       *Stored // files of the same model: each tensor is called what it is called there, and a copy of a tied head is written where they have one, as is what they have beside the network; nil: of a larger model the text part alone is written
	Ends       []int32 // tokens that end an answer, for config.json; nil: those of the definition
	// Companions are files that other programs want beside the model, such as those of its tokenizer: by their names, each written by a call.
	Companions map[string]func(io.Writer) error
	// Tell is told what is written or lacking beside a network of text, and what became of what interrupted exports have left in the folder. May be nil.
	Tell func(string)
}

// Export writes a model in the Hugging Face layout into the new directory dir, all of it or nothing: config.json and model.safetensors, or
// model-00001-of-0000N.safetensors with model.safetensors.index.json. read is called for each parameter of def when its turn comes, so that
// one at a time is in memory. Of a network with adapters it writes these, as a PEFT directory: see adapterFiles.
func Export(dir string, def Definition, read func(path string) ([]float32, error), o ExportOptions) error {
	if def == nil || read == nil {
		return fmt.Errorf("model: export %q: %w, and a function that reads its parameters", dir, errNone)
	}
	if err := export(dir, def, read, o); err != nil {
		return fmt.Errorf("model: export %q: %w", dir, err)
	}
	return nil
}

func export(dir string, def Definition, read func(path string) ([]float32, error), o ExportOptions) error {
	if len(AdapterParams(def)) > 0 {
		files, err := adapterFiles(def, read, o)
		if err != nil {
			return err
		}
		maps.Copy(files, o.Companions)
		return writeDir(dir, files, o.Tell)
	}
	if o.Like == nil {
		def = placed(def, func(m decoder) decoder {
			m.around = nil
			return m
		})
	}
	tensors, err := Tensors(def, cmp.Or(o.DType, "F32"), read)
	if err != nil {
		return err
	}
	if o.Like != nil {
		tensors = o.Like.dress(def, tensors, o.DType == "", read)
	}
	tensors = withOthers(def, inPieces(def, tensors, o.Like, read), o)
	config, err := ConfigEnding(def, cmp.Or(o.DType, o.Like.DType()), o.Ends)
	if err != nil {
		return err
	}
	shards, index, err := safetensors.Split(weightsStem, tensors, o.ShardBytes)
	if err != nil {
		return err
	}
	files := map[string]func(io.Writer) error{"config.json": textWriter(config)}
	if index != nil {
		files[weightsStem+indexSuffix] = textWriter(index)
	}
	for _, s := range shards {
		files[s.Name] = func(w io.Writer) error { return safetensors.Write(w, s.Tensors, Metadata()) }
	}
	maps.Copy(files, o.Companions)
	return writeDir(dir, files, o.Tell)
}

// writeDir writes files, by their names, into a directory that is new or empty: all of them or none.
func writeDir(dir string, files map[string]func(io.Writer) error, tell func(string)) error {
	d, err := atomicfile.MakeDir(dir, func(path string, err error) {
		switch {
		case tell == nil:
		case err != nil:
			tell(fmt.Sprintf("%s looks like what an interrupted export has left, and stays: %v", path, err))
		default:
			tell(fmt.Sprintf("removed %s, left by an interrupted export", path))
		}
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(d.Join(name), files[name]); err != nil {
			d.Discard()
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return d.Place()
}

func textWriter(raw []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}
}

// writeFile writes and syncs one file.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Tensors are the parameters of def as model.safetensors holds them. read is called for
// each when its turn to be written comes, so that one at a time is in memory. A
// GPT-2 is named as on the hub; with an untied head, which the hub's form does not know,
// as Hugging Face saves it, with "transformer." before all but the head.
func Tensors(def Definition, dtype string, read func(path string) ([]float32, error)) ([]safetensors.Tensor, error) {
	if encoders[dtype] == nil {
		return nil, errExportDType(dtype)
	}
	family, err := familyOf(def.Kind())
	if err != nil {
		return nil, err
	}
	var tensors []safetensors.Tensor
	name := family.nameIn(def)
	for _, p := range def.Params() {
		own := dtype
		if p.wide {
			own = "F32"
		}
		tensors = append(tensors, safetensors.Tensor{Name: name(p.Path), DType: own, Shape: p.Shape, Data: dataAs(own, p.Path, read)})
	}
	return tensors, nil
}

func errExportDType(dtype string) error {
	return fmt.Errorf("dtype %q, want F32, BF16 or F16", dtype)
}

// encoders append one value to bytes, rounded to nearest, ties to even. None makes an infinity of a finite number.
var encoders = map[string]func([]byte, float32) ([]byte, error){
	"F32": func(b []byte, v float32) ([]byte, error) {
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(v)), nil
	},
	"BF16": func(b []byte, v float32) ([]byte, error) {
		u := array.EncodeBF16(v)
		if u&0x7fff == 0x7f80 && !math.IsInf(float64(v), 0) {
			return b, fmt.Errorf("value %g does not fit BF16: export as F32", v)
		}
		return binary.LittleEndian.AppendUint16(b, u), nil
	},
	"F16": func(b []byte, v float32) ([]byte, error) {
		if math.Abs(float64(v)) >= 65520 && !math.IsInf(float64(v), 0) {
			return b, fmt.Errorf("value %g does not fit F16: export as BF16 or F32", v)
		}
		return binary.LittleEndian.AppendUint16(b, array.EncodeF16(v)), nil
	},
}

// WriteFloats writes floats as files of weights have them: as "F32", "BF16" or "F16".
func WriteFloats(w io.Writer, dtype string, data []float32) error {
	encode, ok := encoders[dtype]
	if !ok {
		return errExportDType(dtype)
	}
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
