package gpu

// With native_adapter.go and native_matrix.go the only Go files with cgo: thin wrappers that turn C errors into Go errors. The binding is imported
// for its static library (wgpu-native); what it would do with callbacks is done in native.c.

/*
#include <stdlib.h>
#include "native.h"
#include "native_library.h"

void gputrain_log(uint32_t level, char *message);
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	_ "github.com/cogentcore/webgpu/wgpu" // links libwgpu_native
)

type (
	nativeBuffer   = C.WGPUBuffer
	nativeGroup    = C.WGPUBindGroup
	nativePipeline = C.gt_pipeline
	nativeFence    = *C.gt_fence
	nativeProfile  = *C.gt_profile
	nativeStaging  = C.gt_staging
	nativeList     = C.gt_list
	nativeTexels   = C.gt_texels
)

// Library is the version of wgpu that is linked, the one that native_library.h says this system has.
const Library = C.GT_LIBRARY

// Usages of buffers.
const (
	usageStorage = C.WGPUBufferUsage_Storage | C.WGPUBufferUsage_CopySrc | C.WGPUBufferUsage_CopyDst
	usageUniform = C.WGPUBufferUsage_Uniform | C.WGPUBufferUsage_CopyDst
	usageStaging = C.WGPUBufferUsage_MapRead | C.WGPUBufferUsage_CopyDst
	usageTexels  = 1 << 31 // ours: a texture, no buffer of the library's
)

// nativeError is nil when the call went well.
func nativeError(e *C.gt_error) error {
	message := strings.TrimSpace(C.GoString(&e.message[0]))
	switch e._type {
	case 0:
		return nil
	case C.WGPUErrorType_OutOfMemory:
		return fmt.Errorf("%w: %s", ErrOutOfMemory, message)
	case C.WGPUErrorType_DeviceLost:
		return fmt.Errorf("%w: %s", ErrDeviceLost, message)
	}
	return errors.New(message)
}

func cInt(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func (n *nativeDevice) close() {
	C.gt_close(n.device)
	C.wgpuAdapterRelease(n.adapter)
	keepInstance(n.backend, n.instance)
}

// failed is the reason when the device is lost. Like pending it is asked before every call, so it makes garbage only where
// there is something to tell.
func (n *nativeDevice) failed() error {
	if C.gt_lost(n.device, nil, 0) == 0 {
		return nil
	}
	var message [512]C.char
	C.gt_lost(n.device, &message[0], C.size_t(len(message)))
	return fmt.Errorf("%w: adapter %s: %s", ErrDeviceLost, n.name, C.GoString(&message[0]))
}

// pending is an error that the library reported outside any call; it is told once.
func (n *nativeDevice) pending() error {
	if C.gt_pending(n.device, nil) == 0 {
		return nil
	}
	var e C.gt_error
	C.gt_pending(n.device, &e)
	return nativeError(&e)
}

func (n *nativeDevice) lose(reason string, byDriver bool) {
	message := C.CString(reason)
	defer C.free(unsafe.Pointer(message))
	C.gt_lose(n.device, message, cInt(byDriver))
}

// dead says that the driver lost the device: the library aborts the process when it is then asked for anything.
func (n *nativeDevice) dead() bool {
	return C.gt_lost(n.device, nil, 0) == 2
}

// settled polls once and says whether the fence is set, whether the device is lost or not.
func (n *nativeDevice) settled(f nativeFence) bool { return C.gt_settled(n.device, f) != 0 }

func (n *nativeDevice) buffer(label string, usage uint32, bytes uint64) (nativeBuffer, error) {
	name := C.CString(label)
	defer C.free(unsafe.Pointer(name))
	var e C.gt_error
	b := C.gt_buffer(n.device, name, C.WGPUFlags(usage), C.uint64_t(bytes), &e)
	return b, nativeError(&e)
}

func (n *nativeDevice) makeTexels(label string, bytes uint64) (nativeTexels, error) {
	name := C.CString(label)
	defer C.free(unsafe.Pointer(name))
	var t nativeTexels
	var e C.gt_error
	C.gt_texels_make(n.device, name, C.uint64_t(bytes), &t, &e)
	return t, nativeError(&e)
}

func (n *nativeDevice) releaseTexels(t nativeTexels) { C.gt_texels_release(n.device, t) }

func (n *nativeDevice) releaseBuffer(b nativeBuffer) { C.gt_buffer_release(n.device, b) }

func (n *nativeDevice) write(b nativeBuffer, offset uint64, data []byte) error {
	var e C.gt_error
	C.gt_write(n.device, b, C.uint64_t(offset), unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), &e)
	return nativeError(&e)
}

func (n *nativeDevice) pipeline(k *Kernel, units bool) (nativePipeline, error) {
	label := C.CString(k.Label)
	defer C.free(unsafe.Pointer(label))
	source := C.CString(k.Source)
	defer C.free(unsafe.Pointer(source))
	types := make([]C.uint32_t, len(k.Bindings)+1)
	for i, b := range k.Bindings {
		switch b.Access {
		case Uniform:
			types[i] = C.WGPUBufferBindingType_Uniform
		case Read:
			types[i] = C.WGPUBufferBindingType_ReadOnlyStorage
		case Texels:
			types[i] = C.GT_TEXELS
		case WrittenTexels:
			types[i] = C.GT_WRITTEN_TEXELS
		default:
			types[i] = C.WGPUBufferBindingType_Storage
		}
	}
	var p nativePipeline
	var e C.gt_error
	if units {
		err := n.matrixPipeline(label, source, types, k.matrix, &p, &e)
		return p, err
	}
	C.gt_pipeline_make(n.device, label, source, C.size_t(len(k.Bindings)), &types[0], &p, &e)
	return p, nativeError(&e)
}

func (n *nativeDevice) releasePipeline(p nativePipeline) { C.gt_pipeline_release(n.device, p) }

func (n *nativeDevice) group(label string, p nativePipeline, ranges []Range) (nativeGroup, error) {
	name := C.CString(label)
	defer C.free(unsafe.Pointer(name))
	bindings := make([]C.gt_binding, len(ranges)+1)
	for i, r := range ranges {
		if r.Buffer.usage == usageTexels {
			bindings[i].view = r.Buffer.texels.view
			continue
		}
		bindings[i] = C.gt_binding{buffer: r.Buffer.native, offset: C.uint64_t(r.Offset), bytes: C.uint64_t(r.Bytes)}
	}
	var e C.gt_error
	g := C.gt_bind_group(n.device, name, p.layout, C.size_t(len(ranges)), &bindings[0], &e)
	return g, nativeError(&e)
}

func (n *nativeDevice) releaseGroup(g nativeGroup) { C.gt_bind_group_release(n.device, g) }

// nativeCommand is a command with its handles resolved.
type nativeCommand struct {
	kind                 commandKind
	grid                 Grid
	pipeline             nativePipeline
	group                nativeGroup
	src, dst             nativeBuffer
	srcOffset, dstOffset uint64
	texels               nativeTexels
	bytes                uint64
	label                string
}

// makeList puts commands into C memory, where they stay until freeList.
func makeList(commands []nativeCommand) nativeList {
	if len(commands) == 0 {
		return nativeList{}
	}
	p := (*C.gt_command)(C.calloc(C.size_t(len(commands)), C.sizeof_gt_command))
	kinds := map[commandKind]C.uint32_t{
		kindDispatch: C.GT_DISPATCH, kindCopy: C.GT_COPY, kindZero: C.GT_ZERO, kindReadBack: C.GT_READBACK, kindGroup: C.GT_GROUP,
		kindRefresh: C.GT_REFRESH,
	}
	for i, c := range unsafe.Slice(p, len(commands)) {
		from := commands[i]
		c.kind = kinds[from.kind]
		c.grid = [3]C.uint32_t{C.uint32_t(from.grid.X), C.uint32_t(from.grid.Y), C.uint32_t(from.grid.Z)}
		c.pipeline, c.group, c.src, c.dst, c.texels = from.pipeline.pipeline, from.group, from.src, from.dst, from.texels.texture
		c.src_offset, c.dst_offset, c.bytes = C.uint64_t(from.srcOffset), C.uint64_t(from.dstOffset), C.uint64_t(from.bytes)
		if from.kind == kindGroup {
			c.label = C.CString(from.label)
		}
		unsafe.Slice(p, len(commands))[i] = c
	}
	return nativeList{commands: p, count: C.size_t(len(commands))}
}

// partOf is the commands of a list from one up to another.
func partOf(l nativeList, from, to int) nativeList {
	return nativeList{commands: &unsafe.Slice(l.commands, l.count)[from], count: C.size_t(to - from)}
}

func freeList(l nativeList) {
	if l.commands == nil {
		return
	}
	for _, c := range unsafe.Slice(l.commands, l.count) {
		C.free(unsafe.Pointer(c.label))
	}
	C.free(unsafe.Pointer(l.commands))
}

func makeStaging(b nativeBuffer, bytes uint64, f nativeFence) nativeStaging {
	return nativeStaging{buffer: b, bytes: C.uint64_t(bytes), fence: f}
}

// submit encodes and submits the lists; done, when not nil, is set when the device has done all of it.
func (n *nativeDevice) submit(label string, lists []nativeList, stagings []nativeStaging, done nativeFence, p nativeProfile) error {
	name := C.CString(label)
	defer C.free(unsafe.Pointer(name))
	var e C.gt_error
	C.gt_submit(n.device, name, C.size_t(len(lists)), unsafe.SliceData(lists),
		C.size_t(len(stagings)), unsafe.SliceData(stagings), done, p, &e)
	return nativeError(&e)
}

func (n *nativeDevice) poll() { C.gt_poll(n.device) }

func makeFence() nativeFence           { return C.gt_fence_make() }
func resetFence(f nativeFence)         { C.gt_fence_reset(f) }
func fenceStatus(f nativeFence) uint32 { return uint32(C.gt_fence_status(f)) }

// waitSlice waits for at most the given time, holding no lock that others need.
func (n *nativeDevice) waitSlice(f nativeFence, most time.Duration) bool {
	us := min(most.Microseconds(), math.MaxInt32)
	return C.gt_wait(n.device, f, C.uint32_t(us)) == 1
}

// readMapped copies a mapped buffer out and unmaps it.
func (n *nativeDevice) readMapped(b nativeBuffer, dst []byte) bool {
	return C.gt_mapped_read(n.device, b, C.uint64_t(len(dst)), unsafe.Pointer(unsafe.SliceData(dst))) != 0
}

func (n *nativeDevice) makeProfile(passes int) (nativeProfile, error) {
	var e C.gt_error
	p := C.gt_profile_make(n.device, C.uint32_t(passes), &e)
	return p, nativeError(&e)
}

func (n *nativeDevice) releaseProfile(p nativeProfile) { C.gt_profile_release(n.device, p) }

// readProfile is the ticks and the group index of every pass of a finished submit.
func (n *nativeDevice) readProfile(p nativeProfile) (ticks []uint64, groups []uint32) {
	passes := int(p.passes)
	if passes == 0 {
		return nil, nil
	}
	raw := make([]byte, 16*passes)
	if !n.readMapped(p.staging, raw) {
		return nil, nil
	}
	ticks = unsafe.Slice((*uint64)(unsafe.Pointer(&raw[0])), 2*passes)
	for _, g := range unsafe.Slice(p.group, passes) {
		groups = append(groups, uint32(g))
	}
	return ticks, groups
}

func profilePasses(p nativeProfile) int        { return int(p.passes) }
func profileFence(p nativeProfile) nativeFence { return p.fence }

func setNativeLogLevel(level uint32) { C.gt_log_level(C.uint32_t(level)) }
func initNativeLog()                 { C.gt_log_init() }

//export gputrain_log
func gputrain_log(level C.uint32_t, message *C.char) { logNative(uint32(level), C.GoString(message)) }
