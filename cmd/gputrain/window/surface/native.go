//go:build window

package surface

/*
#cgo CFLAGS: -I${SRCDIR}/../../../../gpu
#include <stdlib.h>
#include "surface.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"gputrain/gpu"
)

type nativeSheet = C.gt_sheet

// native is a surface and the device that draws on it, as the C code has them.
type native struct {
	device  *C.gt_device
	surface *C.gt_surface
}

// failure is nil when the call went well.
func failure(e *C.gt_error) error {
	if e._type == 0 {
		return nil
	}
	return errors.New(strings.TrimSpace(C.GoString(&e.message[0])))
}

func newNative(shared gpu.Native, w Window) (native, error) {
	window := (*C.gt_window)(C.calloc(1, C.sizeof_gt_window))
	defer C.free(unsafe.Pointer(window))
	window.xlib_display, window.xlib_window = w.XlibDisplay, C.uint64_t(w.XlibWindow)
	window.metal_layer = w.MetalLayer
	window.win32_instance, window.win32_window = w.Win32Instance, w.Win32Window
	var e C.gt_error
	n := native{device: (*C.gt_device)(shared.Device)}
	n.surface = C.gt_surface_make(n.device, C.WGPUInstance(shared.Instance), C.WGPUAdapter(shared.Adapter), window, &e)
	return n, failure(&e)
}

func (n native) configure(width, height int) error {
	var e C.gt_error
	C.gt_surface_configure(n.device, n.surface, C.uint32_t(width), C.uint32_t(height), &e)
	return failure(&e)
}

// release gives back the surface, and lets the library free what it has held.
func (n native) release() {
	C.gt_surface_release(n.device, n.surface)
	C.gt_poll(n.device)
}

func (n native) sheet(k *gpu.Kernel, bind []gpu.Range) (nativeSheet, error) {
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
		if k.Bindings[i].Access == gpu.Uniform {
			types[i] = C.WGPUBufferBindingType_Uniform
		}
		buffers[i], offsets[i], sizes[i] = C.WGPUBuffer(r.Buffer.Native()), C.uint64_t(r.Offset), C.uint64_t(r.Bytes)
	}
	var sheet nativeSheet
	var e C.gt_error
	C.gt_sheet_make(n.device, n.surface, label, source, C.size_t(count), &types[0], &buffers[0], &offsets[0], &sizes[0], &sheet, &e)
	return sheet, failure(&e)
}

func (n native) releaseSheet(s nativeSheet) { C.gt_sheet_release(n.device, s) }

// frame says whether the picture was shown; if not, and without an error, the surface wants to be configured again.
func (n native) frame(background [3]float64, layers []Layer) (bool, error) {
	list := make([]C.gt_layer, len(layers)+1)
	for i, l := range layers {
		list[i] = C.gt_layer{sheet: l.Sheet.native, vertices: C.uint32_t(l.Vertices), instances: C.uint32_t(l.Instances)}
	}
	color := C.WGPUColor{r: C.double(background[0]), g: C.double(background[1]), b: C.double(background[2]), a: 1}
	var e C.gt_error
	outcome := C.gt_frame(n.device, n.surface, color, C.size_t(len(layers)), &list[0], &e)
	return outcome == C.GT_FRAME_SHOWN, failure(&e)
}

func (n native) shown() bool { return C.gt_settled(n.device, n.surface.done) != 0 }

// dead says that the driver lost the device: the library aborts the process when it is then asked for anything.
func (n native) dead() bool { return C.gt_lost(n.device, nil, 0) == 2 }

// lost is the reason when the device is lost.
func (n native) lost() error {
	var message [512]C.char
	if C.gt_lost(n.device, &message[0], C.size_t(len(message))) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", gpu.ErrDeviceLost, C.GoString(&message[0]))
}
