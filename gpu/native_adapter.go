package gpu

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"unsafe"
)

// nativeAdapter is an adapter as the library describes it; order is its place among the adapters of its backend.
type nativeAdapter struct {
	adapter Adapter
	order   int
}

func backendBits(backend string) C.WGPUFlags {
	switch backend {
	case "vulkan":
		return C.WGPUInstanceBackend_Vulkan
	case "gl":
		return C.WGPUInstanceBackend_GL
	case "metal":
		return C.WGPUInstanceBackend_Metal
	case "d3d12":
		return C.WGPUInstanceBackend_DX12
	}
	all := C.WGPUFlags(C.WGPUInstanceBackend_Vulkan | C.WGPUInstanceBackend_Metal | C.WGPUInstanceBackend_DX12)
	if C.gt_opengl_usable() != 0 {
		all |= C.WGPUInstanceBackend_GL
	}
	return all
}

// Instances are never released: releasing one ends the process's OpenGL display for all others. Each is used by one device
// at a time, so that devices of one OpenGL driver have contexts of their own, and by the next one after that.
var instances struct {
	mu    sync.Mutex
	spare map[string][]C.WGPUInstance // by backend
}

func takeInstance(backend string) C.WGPUInstance {
	instances.mu.Lock()
	defer instances.mu.Unlock()
	if s := instances.spare[backend]; len(s) > 0 {
		instances.spare[backend] = s[:len(s)-1]
		return s[len(s)-1]
	}
	return C.gt_instance(backendBits(backend))
}

func keepInstance(backend string, i C.WGPUInstance) {
	instances.mu.Lock()
	defer instances.mu.Unlock()
	if instances.spare == nil {
		instances.spare = map[string][]C.WGPUInstance{}
	}
	instances.spare[backend] = append(instances.spare[backend], i)
}

// listNative is every adapter of every backend, in the library's order.
func listNative() []nativeAdapter {
	const all = ""
	instance := takeInstance(all)
	defer keepInstance(all, instance)
	var handles [64]C.WGPUAdapter
	n := min(int(C.gt_adapters(instance, &handles[0], C.size_t(len(handles)))), len(handles))
	var out []nativeAdapter
	orders := map[string]int{}
	for _, h := range handles[:n] {
		a := describe(h)
		C.wgpuAdapterRelease(h)
		out = append(out, nativeAdapter{a, orders[a.Backend]})
		orders[a.Backend]++
	}
	tellVulkan(out, vulkanFactsOf)
	return out
}

const vec4Bytes = 16

func describe(h C.WGPUAdapter) Adapter {
	var info C.gt_adapter_info
	C.gt_adapter_describe(h, &info)
	a := Adapter{
		Name:       strings.TrimSpace(C.GoString(&info.name[0])),
		Timestamps: info.timestamps != 0,
	}
	switch info.backend {
	case C.WGPUBackendType_Vulkan:
		a.Backend = "vulkan"
	case C.WGPUBackendType_Metal:
		a.Backend = "metal"
	case C.WGPUBackendType_D3D12:
		a.Backend = "d3d12"
	case C.WGPUBackendType_OpenGL, C.WGPUBackendType_OpenGLES:
		a.Backend = "gl"
	default:
		a.Backend = "other"
	}
	switch info._type {
	case C.WGPUAdapterType_DiscreteGPU:
		a.Type = "discrete"
	case C.WGPUAdapterType_IntegratedGPU:
		a.Type = "integrated"
	case C.WGPUAdapterType_CPU:
		a.Type = softwareType
	default:
		a.Type = "other"
	}
	l := info.limits
	a.Limits = Limits{
		BufferBytes:    min(uint64(l.maxBufferSize), math.MaxInt64),              // NVK has all bits set
		BindingBytes:   uint64(l.maxStorageBufferBindingSize) &^ (vec4Bytes - 1), // elsewhere 2^31 - 1
		UniformBytes:   uint64(l.maxUniformBufferBindingSize),
		StorageBuffers: int(l.maxStorageBuffersPerShaderStage),
		Invocations:    int(l.maxComputeInvocationsPerWorkgroup),
		WorkgroupBytes: int(l.maxComputeWorkgroupStorageSize),
		WorkgroupSize:  [3]int{int(l.maxComputeWorkgroupSizeX), int(l.maxComputeWorkgroupSizeY), int(l.maxComputeWorkgroupSizeZ)},
		Workgroups:     uint32(l.maxComputeWorkgroupsPerDimension),
		StorageAlign:   uint64(l.minStorageBufferOffsetAlignment),
		UniformAlign:   uint64(l.minUniformBufferOffsetAlignment),
	}
	a.Limits.Software = a.Type == softwareType
	if a.Limits.Software && info.texels != 0 && texelCapacity(uint32(l.maxTextureDimension2D)) >= a.Limits.BindingBytes {
		a.Limits.TexelBindings = int(l.maxStorageTexturesPerShaderStage)
	}
	return a
}

// nativeDevice is a device with the instance and adapter it came from.
type nativeDevice struct {
	name     string // of the adapter, for errors
	backend  string
	instance C.WGPUInstance
	adapter  C.WGPUAdapter
	device   *C.gt_device
	matrix   bool // has the matrix units of its adapter
}

// openNative opens the order-th adapter of a backend, which must still have that name.
func openNative(a Adapter, order int, label string, timestamps, texels, matrix bool) (*nativeDevice, error) {
	n := &nativeDevice{name: a.String(), backend: a.Backend, instance: takeInstance(a.Backend)}
	var handles [64]C.WGPUAdapter
	count := min(int(C.gt_adapters(n.instance, &handles[0], C.size_t(len(handles)))), len(handles))
	k := 0
	for _, h := range handles[:count] {
		d := describe(h)
		if d.Backend == a.Backend && n.adapter == nil {
			if k == order && d.Name == a.Name {
				n.adapter = h
				k++
				continue
			}
			k++
		}
		C.wgpuAdapterRelease(h)
	}
	if n.adapter == nil {
		keepInstance(n.backend, n.instance)
		return nil, fmt.Errorf("%w: it is gone", ErrNoAdapter)
	}
	name := C.CString(label)
	defer C.free(unsafe.Pointer(name))
	var e C.gt_error
	if matrix {
		n.openMatrix(name, timestamps, texels, &e)
	} else {
		n.device = C.gt_open(n.adapter, name, cInt(timestamps), cInt(texels), cInt(a.Backend == "gl"), &e)
	}
	if n.device == nil {
		C.wgpuAdapterRelease(n.adapter)
		keepInstance(n.backend, n.instance)
		return nil, nativeError(&e)
	}
	return n, nil
}
