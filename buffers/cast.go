package buffers

import (
	"fmt"

	"gputrain/gpu"
	"gputrain/shaders"
)

// Copy records dst = src for two trees of one layout: a plain copy for one dtype, F32 to BF16 rounded to nearest even, BF16
// to F32 without loss. Other casts are refused; Map can write them.
func Copy(rec *gpu.Recording, dst, src *Tree) error {
	if err := dst.same("copy", src); err != nil {
		return err
	}
	switch {
	case dst == src:
	case dst.dtype == src.dtype:
		for i := range dst.slabs {
			rec.Copy(dst.Slab(i), src.Slab(i))
		}
	case dst.dtype == BF16 && src.dtype == F32:
		recordCast(rec, dst, src, "", nil)
	case dst.dtype == F32 && src.dtype == BF16:
		recordCast(rec, dst, src, "WIDEN", nil)
	default:
		return fmt.Errorf("buffers: copy: tree %q: no cast from %v to %v", dst.label, src.dtype, dst.dtype)
	}
	return rec.Err()
}

// CopyStochastic records dst (BF16) = src (F32), each element rounded to one of its two neighbours with probabilities that
// keep its mean. The two words of key, in the first 8 of 16 bytes of a buffer of gpu.NewUniform, are a prng.Key that must be new
// at each use. The draws of a leaf depend on key, path and shape alone, not on the tree around it: elements 4q to 4q+3
// use, in order, the low and the high half of the two words of the key's Hash(FNV-1a of the path, q).
func CopyStochastic(rec *gpu.Recording, dst, src *Tree, key gpu.Range) error {
	if err := dst.same("copy stochastic", src); err != nil {
		return err
	}
	if dst.dtype != BF16 || src.dtype != F32 {
		return fmt.Errorf("buffers: copy stochastic: tree %q: from %v to %v, want f32 to bf16", dst.label, src.dtype, dst.dtype)
	}
	if key.Bytes != 16 {
		return fmt.Errorf("buffers: copy stochastic: tree %q: key of %d bytes, want 16", dst.label, key.Bytes)
	}
	counters, err := dst.roundingTables()
	if err != nil {
		return err
	}
	recordCast(rec, dst, src, "STOCHASTIC", func(slab int) []gpu.Range {
		return []gpu.Range{counters[slab].All(), key}
	})
	return rec.Err()
}

// recordCast dispatches cast.wgsl, one of its two flags set or none; more gives what follows dst among the bindings.
func recordCast(rec *gpu.Recording, dst, src *Tree, flag string, more func(slab int) []gpu.Range) {
	flags := map[string]bool{"WIDEN": false, "STOCHASTIC": false}
	if flag != "" {
		flags[flag] = true
	}
	k := gpu.NewKernel("gputrain.buffers.cast", "cast", shaders.Variant{Flags: flags})
	for i, n := range dst.layout.Slabs() {
		quads := uint64(n / 4)
		bind := []gpu.Range{src.Slab(i), dst.Slab(i)}
		if more != nil {
			bind = append(bind, more(i)...)
		}
		rec.Dispatch(k, gpu.Linear(quads, quadsPerGroup, dst.device.Limits()), uint32(quads), bind...)
	}
}
