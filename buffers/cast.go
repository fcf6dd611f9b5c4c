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
		recordCast(rec, dst, src, false)
	case dst.dtype == F32 && src.dtype == BF16:
		recordCast(rec, dst, src, true)
	default:
		return fmt.Errorf("buffers: copy: tree %q: no cast from %v to %v", dst.label, src.dtype, dst.dtype)
	}
	return rec.Err()
}

// recordCast dispatches cast.wgsl.
func recordCast(rec *gpu.Recording, dst, src *Tree, widen bool) {
	k := gpu.NewKernel("gputrain.buffers.cast", "cast", shaders.Variant{Flags: map[string]bool{"WIDEN": widen, "HALF": false}})
	for i, n := range dst.layout.Slabs() {
		quads := uint64(n / 4)
		rec.Dispatch(k, gpu.Linear(quads, quadsPerGroup, dst.device.Limits()), uint32(quads), src.Slab(i), dst.Slab(i))
	}
}
