//go:build !linux || nomatrix

package gpu

/*
#include "native.h"
*/
import "C"

// Without the hook below the library no adapter has matrix units, or tells what WebGPU does not ask.
func vulkanFactsOf(string) []vulkanFacts { return nil }

func (n *nativeDevice) openMatrix(label *C.char, timestamps, texels bool, e *C.gt_error) {
	n.device = C.gt_open(n.adapter, label, cInt(timestamps), cInt(texels), cInt(n.backend == "gl"), e)
}

func (n *nativeDevice) matrixPipeline(*C.char, *C.char, []C.uint32_t, matrixUse, *nativePipeline, *C.gt_error) error {
	panic("gpu: no device has matrix units") // n.matrix is false
}
