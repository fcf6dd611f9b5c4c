package model

import (
	"fmt"
	"math"
)

// Proportions are those of a family's published models.
type Proportions struct {
	HeadWidth      int     // of the large ones; 0: Sized knows nothing of the family
	AttentionShare float64 // of all heads together, of the width
	Group          int     // heads that share a key and value head
	Intermediate   float64 // width of the feed-forward part, of the width
	Aspect         float64 // width a layer, of models below 1e9 parameters
	RopeTheta      float64 // 0: no rotary positions
	Tied           bool    // of every size; others are below tiedBelow
}

// tiedBelow is the number of parameters from which on published models have a head of their own.
const tiedBelow = 2e9

// Sized are the keys of a network of a kind that has about so many parameters, in the proportions of its family: heads narrower where there are few.
// context and vocab are the caller's.
func Sized(kind string, parameters float64, vocab, context int) (best Keys, def Definition, err error) {
	family, err := familyOf(kind)
	if err != nil {
		return best, nil, err
	}
	if family.New == nil || family.Usual.HeadWidth == 0 {
		return best, nil, fmt.Errorf("model: sized: found %q, wanted a family that new models are made of", kind)
	}
	aspect := family.Usual.Aspect * max(1, math.Cbrt(parameters/1e9)) // large models are wide rather than deep
	off := math.Inf(1)
	for width := 64; width <= 16384; width += stepOf(width) {
		k := family.Usual.keys(width, parameters < tiedBelow)
		k.Vocab, k.Context = vocab, context
		k.Layers = 1
		one, err := New(kind, k)
		if err != nil {
			return best, nil, err
		}
		k.Layers = 2
		two, err := New(kind, k)
		if err != nil {
			return best, nil, err
		}
		layer := Parameters(two) - Parameters(one)
		k.Layers = int(math.Round((parameters - float64(Parameters(one)-layer)) / float64(layer)))
		if k.Layers < 1 || k.Layers > deepest {
			continue
		}
		// As near in size as in shape: a tenth more parameters counts as much as a layer in two more.
		found := float64(Parameters(one)) + float64(k.Layers-1)*float64(layer)
		shape := math.Log(float64(width) / float64(k.Layers) / aspect)
		if by := 5*math.Abs(math.Log(found/parameters)) + math.Abs(shape); by < off {
			best, off = k, by
		}
	}
	if math.IsInf(off, 1) {
		smallest := family.Usual.keys(64, true)
		smallest.Vocab, smallest.Context, smallest.Layers = vocab, context, 1
		if def, err = New(kind, smallest); err != nil {
			return best, nil, err
		}
		return best, nil, fmt.Errorf("model: sized: %s: found %.4g parameters and a vocabulary of %d, wanted %d parameters or more, and no more than widths of 16384 have",
			kind, parameters, vocab, Parameters(def))
	}
	def, err = New(kind, best)
	return best, def, err
}

// stepOf is what widths are multiples of: 64, and 128 from 1024 on.
func stepOf(width int) int {
	if width < 1024 {
		return 64
	}
	return 128
}

// keys are those of a network of a width, but for its layers.
func (p Proportions) keys(width int, small bool) Keys {
	head := p.HeadWidth
	all := p.AttentionShare * float64(width)
	for head > 32 && all < 4*float64(head) { // a few heads at least
		head /= 2
	}
	heads := max(1, int(math.Round(all/float64(head))))
	kvHeads := 1
	if heads > p.Group { // whole groups
		kvHeads = int(math.Round(float64(heads) / float64(p.Group)))
		heads = kvHeads * p.Group
	}
	k := Keys{Width: width, Heads: heads, Intermediate: int(math.Round(p.Intermediate*float64(width)/64)) * 64}
	if p.RopeTheta == 0 { // GPT-2 has nothing of what follows
		return k
	}
	k.HeadDim, k.RopeTheta, k.TieHead, k.KVHeads = head, p.RopeTheta, p.Tied || small, kvHeads
	return k
}
