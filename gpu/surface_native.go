//go:build window

package gpu

/*
#include <stdlib.h>
#include "surface.h"
*/
import "C"

import "unsafe"

type (
	nativeSurface = *C.gt_surface
	nativeSheet   = C.gt_sheet
)

func (n *nativeDevice) surface(w Window) (nativeSurface, error) {
	window := (*C.gt_window)(C.calloc(1, C.sizeof_gt_window))
	defer C.free(unsafe.Pointer(window))
	window.xlib_display, window.xlib_window = w.XlibDisplay, C.uint64_t(w.XlibWindow)
	window.metal_layer = w.MetalLayer
	window.win32_instance, window.win32_window = w.Win32Instance, w.Win32Window
	var e C.gt_error
	s := C.gt_surface_make(n.device, n.instance, n.adapter, window, &e)
	return s, nativeError(&e)
}

func (n *nativeDevice) configure(s nativeSurface, width, height int) error {
	var e C.gt_error
	C.gt_surface_configure(n.device, s, C.uint32_t(width), C.uint32_t(height), &e)
	return nativeError(&e)
}

func (n *nativeDevice) releaseSurface(s nativeSurface) { C.gt_surface_release(n.device, s) }

func (n *nativeDevice) sheet(s nativeSurface, k *Kernel, bind []Range) (nativeSheet, error) {
	label := C.CString(k.Label)
	defer C.free(unsafe.Pointer(label))
	source := C.CString(k.Source)
	defer C.free(unsafe.Pointer(source))
	count := len(bind)
	types := make([]C.uint32_t, count+1)
	buffers := make([]C.WGPUBuffer, count+1)
	offsets := make([]C.uint64_t, count+1)
	sizes := make([]C.uint64_t, count+1)
	for i, r := range bind {
		types[i] = C.WGPUBufferBindingType_ReadOnlyStorage
		if k.Bindings[i].Access == Uniform {
			types[i] = C.WGPUBufferBindingType_Uniform
		}
		buffers[i], offsets[i], sizes[i] = r.Buffer.native, C.uint64_t(r.Offset), C.uint64_t(r.Bytes)
	}
	var sheet nativeSheet
	var e C.gt_error
	C.gt_sheet_make(n.device, s, label, source, C.size_t(count), &types[0], &buffers[0], &offsets[0], &sizes[0], &sheet, &e)
	return sheet, nativeError(&e)
}

func (n *nativeDevice) releaseSheet(s nativeSheet) { C.gt_sheet_release(n.device, s) }

// frame says whether the picture was shown; if not, and without an error, the surface wants to be configured again.
func (n *nativeDevice) frame(s nativeSurface, background [3]float64, layers []Layer) (bool, error) {
	list := make([]C.gt_layer, len(layers)+1)
	for i, l := range layers {
		list[i] = C.gt_layer{sheet: l.Sheet.native, vertices: C.uint32_t(l.Vertices), instances: C.uint32_t(l.Instances)}
	}
	color := C.WGPUColor{r: C.double(background[0]), g: C.double(background[1]), b: C.double(background[2]), a: 1}
	var e C.gt_error
	outcome := C.gt_frame(n.device, s, color, C.size_t(len(layers)), &list[0], &e)
	return outcome == C.GT_FRAME_SHOWN, nativeError(&e)
}

func (n *nativeDevice) shown(s nativeSurface) bool { return n.settled(s.done) }
