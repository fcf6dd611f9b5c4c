// Package mxfp4 reads matrices of experts as gpt-oss has them published: numbers of 4 bits (E2M1), and for each 32 neighbours a power of two.
package mxfp4

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"gputrain/buffers/safetensors"
)

// What follows the name of matrices in the names of the tensors that have them.
const (
	blocksSuffix = "_blocks"
	scalesSuffix = "_scales"
)

// group is how many neighbours have a scale in common, and two are a byte.
const group = 32

// levels are the numbers of the codes.
var levels = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6}

// Of are the matrices that a tensor is a part of, if another one is the other part; "" for none. find tells whether files have a tensor.
func Of(tensor string, find func(tensor string) bool) string {
	for _, suffixes := range [][2]string{{blocksSuffix, scalesSuffix}, {scalesSuffix, blocksSuffix}} {
		if name, ok := strings.CutSuffix(tensor, suffixes[0]); ok && find(name+suffixes[1]) {
			return name
		}
	}
	return ""
}

// Matrices are stacked. Files have the outputs of each as rows, with the inputs in groups; what is read is [experts, inputs, outputs], as those that are not
// packed are.
type Matrices struct {
	Shape []int

	codes, scales *io.SectionReader
	mutex         sync.Mutex
	expert        int // whose bytes raw are; -1: no one's
	raw, exponent []byte
}

// Open reads what files say of matrices, but for their codes and scales.
func Open(find func(tensor string) *safetensors.File, name string) (*Matrices, error) {
	m := &Matrices{expert: -1}
	if err := m.open(find, name); err != nil {
		return nil, fmt.Errorf("mxfp4: open: tensor %q: %w", name, err)
	}
	return m, nil
}

func (m *Matrices) open(find func(tensor string) *safetensors.File, name string) error {
	bytesOf := func(name string) (r *io.SectionReader, shape []int, err error) {
		f := find(name)
		if f == nil {
			return nil, nil, fmt.Errorf("found no %q", name)
		}
		dtype, shape, _ := f.Info(name)
		if dtype != "U8" {
			return nil, nil, fmt.Errorf("%q: found %s, wanted U8", name, dtype)
		}
		r, err = f.Bytes(name)
		return r, shape, err
	}
	var blocks, scales []int
	var failed [2]error
	m.codes, blocks, failed[0] = bytesOf(name + blocksSuffix)
	m.scales, scales, failed[1] = bytesOf(name + scalesSuffix)
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	if len(blocks) != 4 || blocks[3] != group/2 || !slices.Equal(blocks[:3], scales) {
		return fmt.Errorf("found blocks of shape %v and scales of %v, wanted [experts outputs groups %d] and [experts outputs groups]", blocks, scales, group/2)
	}
	m.Shape = []int{blocks[0], blocks[2] * group, blocks[1]}
	return nil
}

// Read gives elements from first on. It may be called from several goroutines at once.
func (m *Matrices) Read(dst []float32, first int) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	inputs, outputs := m.Shape[1], m.Shape[2]
	each := inputs * outputs
	for i := range dst {
		at := first + i
		if err := m.load(at/each, each); err != nil {
			return err
		}
		in, out := at%each/outputs, at%outputs
		code := m.raw[(out*inputs+in)/2] >> (in % 2 * 4) & 15
		dst[i] = float32(math.Ldexp(float64(levels[code]), int(m.exponent[(out*inputs+in)/group])-127))
	}
	if (first+len(dst))%each == 0 { // nor is more of this expert to come
		m.expert, m.raw, m.exponent = -1, nil, nil
	}
	return nil
}

// load has the bytes of an expert in memory, of so many elements.
func (m *Matrices) load(expert, elements int) error {
	if expert == m.expert {
		return nil
	}
	m.expert, m.raw, m.exponent = -1, make([]byte, elements/2), make([]byte, elements/group)
	_, err := m.codes.ReadAt(m.raw, int64(expert)*int64(len(m.raw)))
	if _, e := m.scales.ReadAt(m.exponent, int64(expert)*int64(len(m.exponent))); err == nil || errors.Is(err, io.EOF) {
		err = e
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("mxfp4: read: %w", err)
	}
	m.expert = expert
	return nil
}
