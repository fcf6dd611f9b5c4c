// Package bitsandbytes reads matrices in nf4 as bitsandbytes stores them in safetensors: codes as U8, and beside them the
// maxima of blocks, the levels, and a text in JSON that says the shape.
package bitsandbytes

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/internal/dynamic8"
	"gputrain/internal/nf4"
	"gputrain/internal/stranger"
	"gputrain/internal/suggest"
)

// What follows the name of a matrix in the names of the tensors that say what it stands for.
const (
	maximaSuffix       = ".absmax"
	levelsSuffix       = ".quant_map"
	nestedMaximaSuffix = ".nested_absmax"
	nestedLevelsSuffix = ".nested_quant_map"
	stateSuffix        = ".quant_state.bitsandbytes__"
)

// Matrix is a matrix as bitsandbytes has stored it.
type Matrix struct {
	Shape []int
	Block int    // elements that have a maximum in common: 32 to 4096, a power of two
	DType string // what its numbers are rounded to: one of dtypes

	codes  *io.SectionReader
	levels [16]float32
	// The maxima are f32 numbers, or codes of a byte.
	maxima *io.SectionReader
	nested *nested // nil: f32
}

// nested is how maxima are kept in eight bits.
type nested struct {
	levels [256]float32
	tops   *io.SectionReader
	group  int
	offset float32
}

// dtypes are what the numbers of a matrix may be rounded to.
var dtypes = []string{"float32", "bfloat16", "float16"}

// state is the text beside a matrix.
type state struct {
	Type         string   `json:"quant_type"`
	Block        int      `json:"blocksize"`
	DType        string   `json:"dtype"`
	Shape        []int    `json:"shape"`
	NestedGroup  int      `json:"nested_blocksize"`
	NestedDType  string   `json:"nested_dtype"`
	NestedOffset *float64 `json:"nested_offset"`
}

// mostState bounds the text of a state, which came from a stranger.
const mostState = 1 << 16

// Of is the matrix that a tensor helps to say, by what follows the matrix's name; "" for none.
func Of(tensor string) string {
	if name, _, ok := strings.Cut(tensor, stateSuffix); ok {
		return name
	}
	for _, suffix := range []string{nestedMaximaSuffix, nestedLevelsSuffix, maximaSuffix, levelsSuffix} {
		if name, ok := strings.CutSuffix(tensor, suffix); ok {
			return name
		}
	}
	return ""
}

// Open reads what files say of a matrix, but for its codes and maxima. find is the file that has a tensor, nil for none.
func Open(find func(tensor string) *safetensors.File, name string) (*Matrix, error) {
	m := &Matrix{}
	if err := m.open(find, name); err != nil {
		return nil, fmt.Errorf("bitsandbytes: open: tensor %q: %w", name, err)
	}
	return m, nil
}

func (m *Matrix) open(find func(tensor string) *safetensors.File, name string) error {
	for _, other := range []string{"fp4", "int8"} {
		if find(name+stateSuffix+other) != nil {
			return fmt.Errorf("found it quantized to %s, wanted nf4", other)
		}
	}
	if find(strings.TrimSuffix(name, "weight")+"SCB") != nil {
		return errors.New("found it quantized to 8 bits, wanted nf4")
	}
	s, err := readState(find, name)
	if err != nil {
		return err
	}
	n := 1
	for _, d := range s.Shape {
		if d < 1 || n > math.MaxInt32*64/d {
			return fmt.Errorf("shape: found %v, wanted sizes from 1 on that a file can have", s.Shape)
		}
		n *= d
	}
	m.Shape, m.Block, m.DType = s.Shape, s.Block, s.DType
	if m.codes, err = bytesOf(find, name, "U8", (n+1)/2); err != nil {
		return err
	}
	if err := floatsOf(find, name+levelsSuffix, m.levels[:]); err != nil {
		return err
	}
	blocks := (n + s.Block - 1) / s.Block
	if s.NestedOffset == nil {
		m.maxima, err = bytesOf(find, name+maximaSuffix, "F32", blocks)
		return err
	}
	if m.maxima, err = bytesOf(find, name+maximaSuffix, "U8", blocks); err != nil {
		return err
	}
	m.nested = &nested{group: s.NestedGroup, offset: float32(*s.NestedOffset)}
	if m.nested.tops, err = bytesOf(find, name+nestedMaximaSuffix, "F32", (blocks+s.NestedGroup-1)/s.NestedGroup); err != nil {
		return err
	}
	return floatsOf(find, name+nestedLevelsSuffix, m.nested.levels[:])
}

func readState(find func(tensor string) *safetensors.File, name string) (s state, err error) {
	const kind = stateSuffix + "nf4"
	f := find(name + kind)
	if f == nil {
		return s, fmt.Errorf("found no %q, wanted it to say what the bytes stand for", name+kind)
	}
	r, err := f.Bytes(name + kind)
	if err != nil {
		return s, err
	}
	if r.Size() > mostState {
		return s, fmt.Errorf("quant_state: found %d bytes, wanted at most %d", r.Size(), mostState)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return s, err
	}
	if err := stranger.JSON(raw, &s); err != nil {
		return s, fmt.Errorf("quant_state: %w", err)
	}
	power := func(n, least, most int) bool { return n >= least && n <= most && n&(n-1) == 0 }
	switch {
	case s.Type != "nf4":
		return s, fmt.Errorf("quant_state: quant_type: found %q, wanted nf4", s.Type)
	case !power(s.Block, 32, 4096):
		return s, fmt.Errorf("quant_state: blocksize: found %d, wanted a power of two from 32 to 4096", s.Block)
	case !slices.Contains(dtypes, s.DType):
		return s, fmt.Errorf("quant_state: dtype: found %q, wanted one of %s%s", s.DType, strings.Join(dtypes, ", "), suggest.DidYouMean(s.DType, dtypes))
	case len(s.Shape) == 0:
		return s, errors.New("quant_state: shape: found none, wanted that of the matrix")
	case s.NestedOffset == nil && (s.NestedGroup != 0 || s.NestedDType != ""):
		return s, errors.New("quant_state: nested_offset: found none, wanted it beside nested_blocksize")
	case s.NestedOffset != nil && !power(s.NestedGroup, 32, 4096):
		return s, fmt.Errorf("quant_state: nested_blocksize: found %d, wanted a power of two from 32 to 4096", s.NestedGroup)
	case s.NestedOffset != nil && s.NestedDType != "float32":
		return s, fmt.Errorf("quant_state: nested_dtype: found %q, wanted float32", s.NestedDType)
	}
	return s, nil
}

// bytesOf are those of a tensor of n elements of a type.
func bytesOf(find func(tensor string) *safetensors.File, name, dtype string, n int) (*io.SectionReader, error) {
	f := find(name)
	if f == nil {
		return nil, fmt.Errorf("found no %q, wanted %d elements of %s", name, n, dtype)
	}
	found, shape, _ := f.Info(name)
	r, err := f.Bytes(name)
	if err != nil {
		return nil, err
	}
	size := map[string]int64{"U8": 1, "F32": 4}[dtype]
	if found != dtype || r.Size() != size*int64(n) {
		return nil, fmt.Errorf("%q: found %s of shape %v, wanted %d elements of %s", name, found, shape, n, dtype)
	}
	return r, nil
}

// floatsOf reads a tensor of as many f32 numbers as dst has.
func floatsOf(find func(tensor string) *safetensors.File, name string, dst []float32) error {
	r, err := bytesOf(find, name, "F32", len(dst))
	if err != nil {
		return err
	}
	return readFloats(r, dst, 0)
}

func readFloats(r io.ReaderAt, dst []float32, first int) error {
	raw := make([]byte, 4*len(dst))
	if _, err := r.ReadAt(raw, 4*int64(first)); err != nil {
		return err
	}
	array.Decode(array.F32, dst, raw)
	return nil
}

// Elements is how many the matrix has.
func (m *Matrix) Elements() int { return array.Elements(m.Shape) }

// Load is that of nf4.
func (m *Matrix) Load() string { return array.NF4.Format().Load }

// ReadCodes gives the codes of the elements from an even one on, two a byte.
func (m *Matrix) ReadCodes(dst []byte, first int) error {
	_, err := m.codes.ReadAt(dst, int64(first/2))
	return err
}

// ReadMaxima gives the maxima of blocks of nf4.Block elements, from one on. Files with other levels than nf4.Levels, or
// shorter blocks, have none.
func (m *Matrix) ReadMaxima(dst []float32, first int) error {
	if m.levels != nf4.Levels || m.Block < nf4.Block {
		return fmt.Errorf("bitsandbytes: read: found levels of its own, or blocks of %d elements, wanted the usual levels and blocks of %d or more to keep it in nf4: model.base f32 or bf16 takes it", m.Block, nf4.Block)
	}
	per := m.Block / nf4.Block
	own := make([]float32, (first+len(dst)-1)/per-first/per+1)
	if err := m.maximaOf(own, first/per); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = own[(first+i)/per-first/per]
	}
	return nil
}

// Nested gives the maxima of blocks of nf4.Block elements as the file keeps them in eight bits; nil where it has them as numbers. Files with levels of
// their own, or groups that are no whole ones of nf4, have none.
func (m *Matrix) Nested() (*dynamic8.Nested, error) {
	n := m.nested
	if n == nil {
		return nil, nil
	}
	per := m.Block / nf4.Block // blocks here for one of the file's
	if per == 0 || n.group*per%dynamic8.Group != 0 || n.levels != dynamic8.Map {
		return nil, fmt.Errorf("bitsandbytes: read: found maxima nested with levels of their own, or in groups of %d blocks of %d, wanted the usual levels and groups of %d elements or more to keep them so: model.base nf4 takes it",
			n.group, m.Block, dynamic8.Group*nf4.Block)
	}
	own := make([]byte, m.maxima.Size())
	if _, err := m.maxima.ReadAt(own, 0); err != nil {
		return nil, err
	}
	tops := make([]float32, n.tops.Size()/4)
	if err := readFloats(n.tops, tops, 0); err != nil {
		return nil, err
	}
	out := &dynamic8.Nested{Codes: make([]byte, nf4.Blocks(m.Elements())), Offset: n.offset}
	for i := range out.Codes {
		out.Codes[i] = own[i/per]
		if i%dynamic8.Group == 0 {
			out.Tops = append(out.Tops, tops[i/per/n.group])
		}
	}
	return out, nil
}

// maximaOf gives the maxima of the matrix's own blocks from one on.
func (m *Matrix) maximaOf(dst []float32, first int) error {
	n := m.nested
	if n == nil {
		return readFloats(m.maxima, dst, first)
	}
	codes := make([]byte, len(dst))
	if _, err := m.maxima.ReadAt(codes, int64(first)); err != nil {
		return err
	}
	group := first / n.group
	tops := make([]float32, (first+len(dst)-1)/n.group-group+1)
	if err := readFloats(n.tops, tops, group); err != nil {
		return err
	}
	for i, code := range codes {
		dst[i] = dynamic8.NestedMaximum(n.levels[code], tops[(first+i)/n.group-group], n.offset)
	}
	return nil
}

// Read gives the numbers from one on that the matrix stands for, rounded to its dtype. It allocates nothing that grows with
// the matrix.
func (m *Matrix) Read(dst []float32, first int) error {
	const most = 1 << 16
	for len(dst) > 0 {
		n := min(len(dst), most-first%2) // even, but for the last
		if err := m.readSome(dst[:n], first); err != nil {
			return fmt.Errorf("bitsandbytes: read: %w", err)
		}
		dst, first = dst[n:], first+n
	}
	return nil
}

func (m *Matrix) readSome(dst []float32, first int) error {
	end := first + len(dst)
	codes := make([]byte, (end+1)/2-first/2)
	maxima := make([]float32, (end-1)/m.Block-first/m.Block+1)
	if err := errors.Join(m.ReadCodes(codes, first), m.maximaOf(maxima, first/m.Block)); err != nil {
		return err
	}
	for i := range dst {
		at := first + i
		dst[i] = Round(m.DType, m.levels[nf4.Code(codes, at-first/2*2)]*maxima[at/m.Block-first/m.Block])
	}
	return nil
}

// Round takes a number to the nearest of a type that dtypes names, of two to the even one.
func Round(dtype string, v float32) float32 {
	switch dtype {
	case "bfloat16":
		return array.DecodeBF16(array.EncodeBF16(v))
	case "float16":
		return array.DecodeF16(array.EncodeF16(v))
	}
	return v
}
