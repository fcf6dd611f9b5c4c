// Package array says what an array is, wherever it lies: its name and shape, the type of its elements, how bf16 is rounded. It knows no device:
// what describes a model needs no more.
package array

import (
	"io"
	"regexp"
	"strings"
	"sync/atomic"
)

// Spec names an array and gives its shape: row-major, any rank, zero dimensions allowed.
type Spec struct {
	Path  string // like "h.0.attn.c_attn.weight"
	Shape []int
	// OutIn says that a matrix is [outputs, inputs], as files of PyTorch have those of linear layers; else it is [inputs, outputs], as in JAX. No number
	// lies elsewhere for it: what asks is an optimizer for which the two sides differ.
	OutIn bool
	// InOut says of a matrix of a model that it is [inputs, outputs]. Neither says that nobody knows.
	InOut bool
	// Scanned says that the first axis counts arrays that have nothing to do with each other.
	Scanned bool
	// Table says that nothing reads the matrix but rows of it, those of a batch's tokens: where it is not trained it need not lie on a device.
	Table bool
}

// Host is an array that the host has, row-major: in memory, or to be read when it is used.
type Host struct {
	Path  string
	Shape []int
	OutIn bool // of Spec
	Table bool // of Spec
	Data  []float32
	// Read gives the elements from first on, as many as fit dst, of an array whose Data is nil: one in a file, which is as large as it likes.
	// It is called from several goroutines at once.
	Read func(dst []float32, first int) error
	// Packed is the array as a file has it in codes; nil: the file has it otherwise. Read gives what that stands for.
	Packed Packed
	// Hold keeps open what Read reads, until release; nil: nothing is to be closed.
	Hold func() (release func() error)
}

// Closer closes what several hold, once the last has let go of it.
type Closer struct {
	close func() error
	held  atomic.Int64 // by others than who opened it
}

// NewCloser is held by its caller.
func NewCloser(close func() error) *Closer { return &Closer{close: close} }

// Hold is Host.Hold.
func (c *Closer) Hold() (release func() error) {
	c.held.Add(1)
	return c.Close
}

// Close lets go.
func (c *Closer) Close() error {
	if c.held.Add(-1) >= 0 {
		return nil
	}
	return c.close()
}

// Packed is an array in codes: those of the elements, and the maxima of blocks.
type Packed interface {
	// Load is that of their format.
	Load() string
	// ReadCodes gives the codes of the elements from an even one on, two a byte.
	ReadCodes(dst []byte, first int) error
	// ReadMaxima gives the maxima of blocks, as long as trees have them, from one on.
	ReadMaxima(dst []float32, first int) error
	// Nested gives the maxima as eight bits keep them; nil: they are kept as numbers.
	Nested() (*Nested, error)
}

// ofLayer are the paths of what is below a number: a layer.
var ofLayer = regexp.MustCompile(`(^|\.)[0-9]+\.`)

// MatrixOfLayer tells whether an array is a matrix of a layer: neither a vector, nor an embedding or an output head.
func (s Spec) MatrixOfLayer() bool {
	return len(s.Shape) == 2 && ofLayer.MatchString(s.Path) && !strings.HasSuffix(s.Path, "_bias")
}

// MatricesOfLayer tells whether an array is the stacked matrices of a layer's experts.
func (s Spec) MatricesOfLayer() bool {
	return len(s.Shape) == 3 && s.Shape[1] > 1 && ofLayer.MatchString(s.Path)
}

// Spec is the array without its elements.
func (h Host) Spec() Spec { return Spec{Path: h.Path, Shape: h.Shape, OutIn: h.OutIn, Table: h.Table} }

// Elements is the product of a shape, 1 for a scalar.
func Elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Elements is the product of the shape, 1 for a scalar.
func (h Host) Elements() int { return Elements(h.Shape) }

// Copy gives the elements from first on, as many as fit dst, wherever they are.
func (h Host) Copy(dst []float32, first int) error {
	if h.Data == nil && h.Read != nil {
		return h.Read(dst, first)
	}
	copy(dst, h.Data[first:])
	return nil
}

// Tensor is an array in a file that is open, under its name there.
type Tensor struct {
	Host
	DType string // how the file has its elements, in the words of safetensors; of a matrix in nf4 what its numbers are rounded to
	// Raw writes its bytes as the file has them; nil: the file has it in several arrays, or none has it.
	Raw func(w io.Writer) error
}
