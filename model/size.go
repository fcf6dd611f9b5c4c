package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// proportions are those of a family's published models.
type proportions struct {
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
// It is one that fits says yes of, such as that other programs load it; nil: any. context and vocab are the caller's.
func Sized(kind string, parameters float64, vocab, context int, fits func(Definition) bool) (best Keys, def Definition, err error) {
	family, err := familyOf(kind)
	if err != nil {
		return best, nil, err
	}
	if family.New == nil || family.usual.HeadWidth == 0 {
		return best, nil, fmt.Errorf("model: sized: found %q, wanted a family that new models are made of", kind)
	}
	s := sizing{kind: kind, usual: family.usual, parameters: parameters, begin: Keys{Vocab: vocab, Context: context}, fits: fits, off: math.Inf(1)}
	for width := 64; width <= widest && !s.past; width += stepOf(width) {
		if err := s.try(width); err != nil {
			return best, nil, err
		}
	}
	if s.def != nil {
		return s.best, s.def, nil
	}
	smallest := s.keys(64, family.usual.heads(64)[0])
	smallest.Layers = 1
	if def, err = New(kind, smallest); err != nil {
		return best, nil, err
	}
	return best, nil, fmt.Errorf(
		"model: sized: %s: found %.4g parameters and a vocabulary of %d, wanted %d parameters or more, and no more than widths of %d have",
		kind, parameters, vocab, Parameters(def), widest,
	)
}

// widest are the networks that are considered.
const widest = 16384

// sizing is a search for the best network of a size.
type sizing struct {
	kind       string
	usual      proportions
	parameters float64
	begin      Keys // those that are given
	fits       func(Definition) bool

	best Keys
	def  Definition // of these; nil: none is found yet
	off  float64    // how far they are from what is wanted
	past bool       // one layer of a width has too many parameters
}

// try compares networks of a width with the best so far: each kind of heads that other programs load.
func (s *sizing) try(width int) error {
	aspect := s.usual.Aspect * max(1, math.Cbrt(s.parameters/1e9)) // large models are wide rather than deep
	for _, h := range s.usual.heads(width) {
		if h.off >= s.off {
			return nil
		}
		k := s.keys(width, h)
		found, err := k.deepen(s.kind, s.parameters)
		if err != nil {
			return err
		}
		if s.past = k.Layers < 1; s.past || k.Layers > deepest {
			return nil
		}
		// As near in size as in shape: a tenth more parameters counts as much as a layer in two more.
		shape := math.Log(float64(width) / float64(k.Layers) / aspect)
		by := 5*math.Abs(math.Log(found/s.parameters)) + math.Abs(shape) + h.off
		if by >= s.off {
			return nil
		}
		def, err := New(s.kind, k)
		if err != nil {
			return err
		}
		if s.fits == nil || s.fits(def) {
			s.best, s.def, s.off = k, def, by
			return nil
		}
	}
	return nil
}

// deepen chooses the layers with which a network has about so many parameters, and tells how many it then has.
func (k *Keys) deepen(kind string, parameters float64) (found float64, err error) {
	const pattern = 12 // layers after which those of every family are as at the beginning
	var sizes [2]int64
	for i := range sizes {
		k.Layers = pattern * (i + 1)
		def, err := New(kind, *k)
		if err != nil {
			return 0, err
		}
		sizes[i] = Parameters(def)
	}
	layer := float64(sizes[1]-sizes[0]) / pattern
	rest := float64(sizes[0]) - pattern*layer
	k.Layers = int(math.Round((parameters - rest) / layer))
	return rest + float64(k.Layers)*layer, nil
}

// stepOf is what widths are multiples of: 64, and 128 from 1024 on.
func stepOf(width int) int {
	if width < 1024 {
		return 64
	}
	return 128
}

// heads are how attention may be divided in a network.
type heads struct {
	all, kv, width int
	off            float64 // how far that is from the usual
}

// heads are those that a width may have, the most usual first. Their number divides the width: Transformers wants that.
func (p proportions) heads(width int) (found []heads) {
	usual := p.HeadWidth
	together := p.AttentionShare * float64(width)
	for usual > 32 && together < 4*float64(usual) { // a few heads at least
		usual /= 2
	}
	for all := 1; all <= width/16; all++ {
		if width%all != 0 {
			continue
		}
		for _, each := range []int{usual, width / all} {
			if each%16 != 0 {
				continue
			}
			apart := math.Abs(math.Log(float64(all*each)/together)) + math.Abs(math.Log(float64(each)/float64(usual)))
			for kv := 1; kv <= all; kv++ {
				if all%kv == 0 {
					group := math.Abs(math.Log(float64(all/kv) / float64(min(p.Group, all))))
					found = append(found, heads{all, kv, each, apart + group})
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b heads) int { return cmp.Compare(a.off, b.off) })
	return found
}

// keys are those of a network of a width, but for its layers.
func (s *sizing) keys(width int, h heads) Keys {
	k, p := s.begin, s.usual
	k.Width, k.Heads, k.Intermediate = width, h.all, int(math.Round(p.Intermediate*float64(width)/64))*64
	if p.RopeTheta == 0 { // GPT-2 has nothing of what follows
		return k
	}
	k.HeadDim, k.RopeTheta, k.TieHead, k.KVHeads = h.width, p.RopeTheta, p.Tied || s.parameters < tiedBelow, h.kv
	return k
}
