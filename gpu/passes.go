package gpu

import (
	"slices"
	"sync"

	"gputrain/shaders"
)

// Moved is the bytes that a dispatch with these bindings, but for the params, moves between memory and the device if it moves each as seldom as it can. A
// range that is bound twice counts once; of a table, whose rows are looked up or added to, count at most rows bytes, unless that is 0.
func (k *Kernel) Moved(bind []Range, table int, rows uint64) (n uint64) {
	k.passes.once.Do(func() { k.passes.counted = k.countPasses() })
	passes := k.passes.counted[len(k.Bindings)-len(bind):]
	for i, r := range bind {
		bytes := r.Bytes
		if i == table && rows > 0 {
			bytes = min(bytes, rows)
		}
		if !slices.Contains(bind[:i], r) {
			n += uint64(passes[i]) * bytes
		}
	}
	return n
}

// passes are counted on first use, once for all forms of a kernel.
type passes struct {
	once    sync.Once
	counted []int
}

// countPasses tells of each binding how often a dispatch moves its elements between memory and the device if it moves each as seldom as it can: once
// where the kernel reads it or writes it, twice where it does both. A uniform counts 0.
func (k *Kernel) countPasses() []int {
	source := withoutComments(k.Source)
	out := make([]int, len(k.Bindings))
	for i, b := range k.Bindings {
		switch b.Access {
		case Read, Texels, WrittenTexels:
			out[i] = 1
		case ReadWrite:
			out[i] = shaders.Passes(source, b.Name)
		}
	}
	return out
}
