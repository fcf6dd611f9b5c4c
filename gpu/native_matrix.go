//go:build linux && !nomatrix

package gpu

/*
#include <stdlib.h>
#include "native_device.h"
#include "native_matrix.h"

#cgo LDFLAGS: -Wl,--wrap=dlsym
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// vulkanFactsOf is what Vulkan tells of its adapters of a name, in their order.
func vulkanFactsOf(name string) (all []vulkanFacts) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var found [16]C.gt_vulkan
	for _, of := range found[:C.gt_vulkan_describe(text, &found[0], C.uint32_t(len(found)))] {
		v := vulkanFacts{multiprocessors: int(of.multiprocessors), tick: float64(of.tick)}
		for _, s := range of.matrix.shapes[:of.matrix.count] {
			v.matrix.Shapes = append(v.matrix.Shapes, MatrixShape{int(s[0]), int(s[1]), int(s[2])})
		}
		if len(v.matrix.Shapes) > 0 {
			v.matrix.Lanes, v.matrix.Subgroups = int(of.matrix.lanes), int(of.matrix.subgroups)
		}
		all = append(all, v)
	}
	return all
}

// openMatrix opens the device with its matrix units, where the driver makes one so.
func (n *nativeDevice) openMatrix(label *C.char, timestamps, texels bool, e *C.gt_error) {
	var granted C.int
	n.device = C.gt_matrix_open(n.adapter, label, cInt(timestamps), cInt(texels), cInt(n.backend == "gl"), e, &granted)
	n.matrix = granted != 0
}

// matrixPipeline makes the pipeline of a kernel that multiplies by matrix units.
func (n *nativeDevice) matrixPipeline(label, source *C.char, types []C.uint32_t, u matrixUse, p *nativePipeline, e *C.gt_error) error {
	var passed C.gt_matrix_passed
	shape := [3]C.uint32_t{C.uint32_t(u.shape.M), C.uint32_t(u.shape.N), C.uint32_t(u.shape.K)}
	C.gt_matrix_pipeline(n.device, label, source, C.size_t(len(types)-1), &types[0], &shape[0], C.uint32_t(u.lanes), p, &passed, e)
	if err := nativeError(e); err != nil {
		return err
	}
	err := fmt.Errorf("matrix units: found %d modules and %d pipelines made of one kernel, wanted one of each", passed.modules, passed.pipelines)
	switch failed := C.GoString(&passed.failed[0]); {
	case failed != "":
		err = errors.New(failed)
	case passed.modules == 1 && passed.pipelines == 1:
		return nil
	}
	n.releasePipeline(*p)
	return err
}

// watchMatrix, where a test has set it, gets the library's modules, and they stay as they are.
var watchMatrix func(code []uint32)

//export gputrain_matrix_module
func gputrain_matrix_module(code *C.uint32_t, words C.size_t, shape *C.uint32_t, out *C.size_t, failed *C.char, size C.size_t) *C.uint32_t {
	library, s := unsafe.Slice((*uint32)(code), words), unsafe.Slice((*uint32)(shape), 3)
	if watchMatrix != nil {
		watchMatrix(library)
		return nil
	}
	made, err := matrixModule(library, MatrixShape{int(s[0]), int(s[1]), int(s[2])})
	if err != nil {
		message := C.CString(err.Error())
		defer C.free(unsafe.Pointer(message))
		C.gt_copy(failed, size, message)
		return nil
	}
	*out = C.size_t(len(made))
	p := C.malloc(C.size_t(4 * len(made)))
	copy(unsafe.Slice((*uint32)(p), len(made)), made)
	return (*C.uint32_t)(p)
}
