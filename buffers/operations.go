package buffers

import (
	"errors"

	"gputrain/gpu"
)

var errStub = errors.New("buffers: not written yet")

type tables struct{ buffers []*gpu.Buffer }

func (t *tables) release() {}

// Copy records dst = src for trees of one layout: a plain copy for one dtype, else widened or rounded to nearest even.
func Copy(rec *gpu.Recording, dst, src *Tree) error { return errStub }

// CopyStochastic records dst (BF16) = src (F32), rounded up or down at random.
func CopyStochastic(rec *gpu.Recording, dst, src *Tree, key gpu.Range) error { return errStub }

// Fill records dst = value in every element.
func Fill(rec *gpu.Recording, dst *Tree, value float64) error { return errStub }

// Map records dst = expression.
func Map(rec *gpu.Recording, dst *Tree, expression string, srcs ...*Tree) error { return errStub }
