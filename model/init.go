package model

import (
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gputrain/buffers/array"
	"gputrain/buffers/prng"
)

// Init makes the initial parameters of def, in canonical order. Each is a pure function of
// (seed, path): element i of a normal parameter is Std times draw i of the key that
// seed and path make, so that no parameter depends on which others there are.
//
// GPT-2 and Llama begin as their papers say: normal with deviation InitStd, GPT-2's
// residual projections divided by sqrt(2 Layers), gains 1, biases 0. MLPs as He et al. 2015.
func Init(def Definition, seed uint64) []array.Host {
	hosts := Drawn(def, seed)
	for i, h := range hosts {
		data := make([]float32, h.Elements())
		inParts(len(data), 1<<14, func(from, to int) { _ = h.Read(data[from:to], from) }) // what is drawn never fails
		hosts[i].Data, hosts[i].Read = data, nil
	}
	return hosts
}

// Drawn is Init of parameters that are drawn when they are read.
func Drawn(def Definition, seed uint64) []array.Host {
	params := laidOut(def)
	hosts := make([]array.Host, len(params))
	for i, p := range params {
		hosts[i] = p.drawn(seed)
	}
	begin(params, hosts, func(int) bool { return true }, nil)
	return hosts
}

// outputs are the matrices, and their biases, that write what a layer adds to its input: those behind attention, or behind what a layer mixes by in its
// place, and of the feed-forward part.
var outputs = regexp.MustCompile(`\.(attn\.c_proj|mlp\.c_proj|o_proj|out_proj|down_proj|feed_forward\.w2|shared_mlp\.output_linear)(\.weight|\.bias|_bias)?$`)

// ZeroOutputs is Drawn with 0 in the parameters that write what a layer adds to its input.
func ZeroOutputs(def Definition, seed uint64) ([]array.Host, error) {
	hosts, found := Drawn(def, seed), false
	for i, h := range hosts {
		if outputs.MatchString(h.Path) {
			found = true
			hosts[i].Read = func(dst []float32, _ int) error {
				clear(dst)
				return nil
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("model: %s: found no matrices that write what a layer adds to its input, wanted some to begin with 0", def.Kind())
	}
	return hosts, nil
}

func (p Param) drawn(seed uint64) array.Host {
	key, std, value, uniform := pathKey(seed, p.Path), float32(p.Std), float32(p.Value), float32(p.uniform)
	return array.Host{Path: p.Path, Shape: p.Shape, OutIn: p.outIn(), Table: p.Table, Read: func(dst []float32, first int) error {
		for i := range dst {
			switch {
			case p.Std > 0:
				dst[i] = std * key.Normal(uint64(first+i))
			case p.uniform > 0:
				dst[i] = uniform * (2*key.Uniform(uint64(first+i)) - 1)
			default:
				dst[i] = value
			}
		}
		return nil
	}}
}

// begin gives those of new parameters that begin as others do what they begin with. One that is none of params is looked up; where it is nowhere, what begins
// as it stays drawn.
func begin(params []Param, hosts []array.Host, isNew func(i int) bool, lookUp func(p Param) (array.Host, bool)) {
	for i, p := range params {
		if p.from == "" || !isNew(i) {
			continue
		}
		var from array.Host
		at, there := slices.BinarySearchFunc(hosts, p.from, func(h array.Host, path string) int { return strings.Compare(h.Path, path) })
		if there {
			from = hosts[at]
		} else if lookUp != nil {
			from, there = lookUp(Param{Path: p.from, Shape: p.Shape})
		}
		if !there {
			continue
		}
		read, hold := from.Copy, from.Hold
		if p.lengths {
			read = func(dst []float32, first int) error { return rowLengths(dst, first, from, p.conv) }
		}
		hosts[i] = array.Host{Path: p.Path, Shape: p.Shape, OutIn: p.outIn(), Table: p.Table, Read: read, Hold: hold}
	}
}

// rowLengths are the Euclidean lengths of the rows of w [out, in] from first on, or of the columns of one that is [in, out].
func rowLengths(dst []float32, first int, w array.Host, conv bool) error {
	rows, columns, count := w.Shape[0], w.Shape[1], len(dst)
	if !conv {
		part := make([]float32, columns)
		for i := range dst {
			if err := w.Copy(part, (first+i)*columns); err != nil {
				return err
			}
			square := 0.0
			for _, v := range part {
				square += float64(v) * float64(v)
			}
			dst[i] = float32(math.Sqrt(square))
		}
		return nil
	}
	part, squares := make([]float32, count), make([]float64, count)
	for row := range rows {
		if err := w.Copy(part, row*columns+first); err != nil {
			return err
		}
		for i, v := range part {
			squares[i] += float64(v) * float64(v)
		}
	}
	for i, square := range squares {
		dst[i] = float32(math.Sqrt(square))
	}
	return nil
}

// pathKey folds both halves of the seed and of the path's FNV-1a hash into a key.
func pathKey(seed uint64, path string) prng.Key {
	h := fnv.New64a()
	h.Write([]byte(path))
	sum := h.Sum64()
	return prng.NewKey(seed).FoldIn(uint32(seed >> 32)).FoldIn(uint32(sum)).FoldIn(uint32(sum >> 32))
}

// inParts calls part with parts of n elements, of at least so many, on all processors; each element knows its index, so the division of the work changes
// nothing.
func inParts(n, least int, part func(from, to int)) {
	size := max(least, (n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for from := 0; from < n; from += size {
		wg.Go(func() { part(from, min(n, from+size)) })
	}
	wg.Wait()
}
