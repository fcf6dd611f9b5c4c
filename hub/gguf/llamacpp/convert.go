package llamacpp

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gputrain/hub/gguf"
	"gputrain/internal/ordered"
)

// Model is what is converted: a Hugging Face directory, or what stands for one.
type Model struct {
	Name    string
	Config  []byte   // config.json
	Tensors []Tensor // by Hugging Face's names
	// Read reads a file of the tokenizer by its name; where there is none, the error is fs.ErrNotExist.
	Read func(name string) ([]byte, error)
	// Ends are tokens that end an answer, the one that the chat template writes there first; nil: no template is known.
	Ends []int
	// Tell is told where llama.cpp may read a text otherwise; nil: nobody is.
	Tell func(what string)
}

// Tensor is a parameter; Read is called when its turn to be written comes.
type Tensor struct {
	Name  string
	Shape []int
	Read  func() ([]float32, error)
}

// fileTypes are llama.cpp's numbers of what most of a file is.
var fileTypes = map[gguf.Type]uint32{gguf.F32: 0, gguf.F16: 1, gguf.Q4_0: 2, gguf.Q8_0: 7, gguf.BF16: 32}

// Convert gives the keys and tensors of a file whose matrices are of a type: F32, F16, BF16, Q8_0 or Q4_0. Vectors and norms are F32, and a matrix whose rows
// are no whole blocks is F16. Biases, norms and the tensors of rotations are what llama.cpp computes with.
func Convert(m Model, as gguf.Type) ([]gguf.Key, []gguf.Tensor, error) {
	number, ok := fileTypes[as]
	if !ok {
		return nil, nil, fmt.Errorf("llamacpp: convert: type: found %s, wanted f32, f16, bf16, q8_0 or q4_0; for others quantize an f16 file: llama-quantize MODEL-f16.gguf MODEL.gguf %s", as, strings.ToUpper(as.String()))
	}
	keys, tensors, err := convert(m, as, number)
	if err != nil {
		return nil, nil, fmt.Errorf("llamacpp: convert: %w", err)
	}
	return keys, tensors, nil
}

func convert(m Model, as gguf.Type, fileType uint32) (keys []gguf.Key, tensors []gguf.Tensor, err error) {
	c, err := parseConfig(m.Config)
	if err != nil {
		return nil, nil, err
	}
	f, shape, factors, err := c.network()
	if err != nil {
		return nil, nil, fmt.Errorf("config.json: %w", err)
	}
	vocab, err := vocabulary(m, c, c.integer("vocab_size"))
	if err != nil {
		return nil, nil, err
	}
	for _, t := range f.apart(likeLlama(m.Tensors)) {
		name, err := f.tensorName(t.Name)
		if err != nil {
			return nil, nil, err
		}
		tensors = append(tensors, f.tensor(c, t, name, as))
		if tied, _ := c.fields["tie_word_embeddings"].(bool); tied && f.untied && name == "token_embd.weight" {
			tensors = append(tensors, f.tensor(c, t, "output.weight", as))
		}
	}
	keys = []gguf.Key{
		{Name: "general.architecture", Value: f.arch},
		{Name: "general.type", Value: "model"},
		{Name: "general.file_type", Value: fileType},
		{Name: "general.quantization_version", Value: uint32(2)},
	}
	return slices.Concat(keys, shape, vocab), append(tensors, factors...), nil
}

// tensor is t as it is written.
func (f family) tensor(c *config, t Tensor, name string, as gguf.Type) gguf.Tensor {
	shape := t.Shape
	if f.arch == "gpt2" && conv.MatchString(t.Name) {
		shape = []int{shape[1], shape[0]}
	}
	if strings.HasSuffix(t.Name, sharedGate) && len(shape) == 2 {
		shape = shape[1:]
	}
	if taps.MatchString(t.Name) && len(shape) == 3 {
		shape = []int{shape[0], shape[2]}
	}
	kind := as
	if len(shape) == 1 || taps.MatchString(t.Name) || strings.HasSuffix(name, "norm.weight") || !strings.HasSuffix(name, ".weight") || name == "position_embd.weight" ||
		strings.HasSuffix(name, "ffn_gate_inp.weight") {
		kind = gguf.F32
	} else if _, err := as.RowBytes(shape[len(shape)-1]); err != nil {
		kind = gguf.F16
	}
	return gguf.Tensor{Name: name, Type: kind, Shape: shape, Write: func(w io.Writer) error {
		x, err := t.Read()
		if err != nil {
			return err
		}
		return write(w, kind, f.transform(c, t.Name, t.Shape, x))
	}}
}

// pieceElements is how many elements are encoded at once by one core: a multiple of every block.
const pieceElements = 1 << 18

// write encodes elements on all cores.
func write(w io.Writer, kind gguf.Type, x []float32) error {
	block, size := kind.Block()
	return ordered.Do(context.Background(), slices.Chunk(x, pieceElements), func(part []float32) ([]byte, error) {
		if representable(kind, part) != nil {
			return nil, representable(kind, x) // which counts all
		}
		piece := make([]byte, len(part)/block*size)
		return piece, gguf.Encode(kind, piece, part)
	}, func(piece []byte) error {
		_, err := w.Write(piece)
		return err
	})
}

// mosts are the magnitudes from which on a type makes something else of a finite number: an infinity of it, or of the scale of its block.
var mosts = map[gguf.Type]float64{gguf.F32: math.Inf(1), gguf.BF16: 0x1.ffp127, gguf.F16: 65520, gguf.Q8_0: 65520 * 127, gguf.Q4_0: 65520 * 8}

// representable refuses numbers that a type would turn into something else: what is too large, and what is not finite in blocks.
func representable(kind gguf.Type, x []float32) error {
	most, count, first := mosts[kind], 0, 0
	elements, _ := kind.Block()
	for i, v := range x {
		a := math.Abs(float64(v))
		if finite := v-v == 0; finite && a < most || !finite && elements == 1 {
			continue
		}
		if count++; count == 1 {
			first = i
		}
	}
	if count == 0 {
		return nil
	}
	instead := "f32"
	if kind != gguf.BF16 {
		instead += " or bf16"
	}
	return fmt.Errorf("found %d of %d numbers that %s does not hold, first element %d, %g: write %s", count, len(x), kind, first, x[first], instead)
}
