package model

import (
	"hash/fnv"
	"runtime"
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
		inParts(len(data), func(from, to int) { _ = h.Read(data[from:to], from) }) // what is drawn never fails
		hosts[i].Data, hosts[i].Read = data, nil
	}
	return hosts
}

// Drawn is Init of parameters that are drawn when they are read.
func Drawn(def Definition, seed uint64) []array.Host {
	params := def.Params()
	hosts := make([]array.Host, len(params))
	for i, p := range params {
		hosts[i] = p.drawn(seed)
	}
	return hosts
}

func (p Param) drawn(seed uint64) array.Host {
	key, std, value := pathKey(seed, p.Path), float32(p.Std), float32(p.Value)
	return array.Host{Path: p.Path, Shape: p.Shape, Read: func(dst []float32, first int) error {
		for i := range dst {
			if dst[i] = value; p.Std > 0 {
				dst[i] = std * key.Normal(uint64(first+i))
			}
		}
		return nil
	}}
}

// pathKey folds both halves of the seed and of the path's FNV-1a hash into a key.
func pathKey(seed uint64, path string) prng.Key {
	h := fnv.New64a()
	h.Write([]byte(path))
	sum := h.Sum64()
	return prng.NewKey(seed).FoldIn(uint32(seed >> 32)).FoldIn(uint32(sum)).FoldIn(uint32(sum >> 32))
}

// inParts calls part with parts of n elements on all processors; each element knows its index, so the division of the work changes nothing.
func inParts(n int, part func(from, to int)) {
	size := max(1<<14, (n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for from := 0; from < n; from += size {
		wg.Go(func() { part(from, min(n, from+size)) })
	}
	wg.Wait()
}
