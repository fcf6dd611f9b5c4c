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
	params := def.Params()
	hosts := make([]array.Host, len(params))
	for i, p := range params {
		hosts[i] = p.init(seed)
	}
	return hosts
}

func (p Param) init(seed uint64) array.Host {
	host := array.Host{Path: p.Path, Shape: p.Shape, Data: make([]float32, elements(p.Shape))}
	if p.Std > 0 {
		normal(host.Data, pathKey(seed, p.Path), float32(p.Std))
		return host
	}
	for i := range host.Data {
		host.Data[i] = float32(p.Value)
	}
	return host
}

// pathKey folds both halves of the seed and of the path's FNV-1a hash into a key.
func pathKey(seed uint64, path string) prng.Key {
	h := fnv.New64a()
	h.Write([]byte(path))
	sum := h.Sum64()
	return prng.NewKey(seed).FoldIn(uint32(seed >> 32)).FoldIn(uint32(sum)).FoldIn(uint32(sum >> 32))
}

// normal draws on all processors; each element knows its index, so the division of the
// work changes nothing.
func normal(dst []float32, key prng.Key, std float32) {
	part := max(1<<14, (len(dst)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for from := 0; from < len(dst); from += part {
		to := min(len(dst), from+part)
		wg.Go(func() {
			for i := from; i < to; i++ {
				dst[i] = std * key.Normal(uint64(i))
			}
		})
	}
	wg.Wait()
}
