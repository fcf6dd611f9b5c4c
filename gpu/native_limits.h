// The limits that a device is asked for: those of its adapter.
#ifndef GPUTRAIN_NATIVE_LIMITS_H
#define GPUTRAIN_NATIVE_LIMITS_H

#include "native_abi.h"

#include <stdio.h>

// Those that kernels and buffers are chosen by.
#define GT_LIMITS(limit) \
    limit(maxBindingsPerBindGroup) limit(maxStorageBuffersPerShaderStage) limit(maxStorageTexturesPerShaderStage) limit(maxUniformBuffersPerShaderStage) \
    limit(maxUniformBufferBindingSize) limit(maxStorageBufferBindingSize) limit(maxBufferSize) limit(maxTextureDimension2D) \
    limit(maxComputeWorkgroupStorageSize) limit(maxComputeInvocationsPerWorkgroup) limit(maxComputeWorkgroupSizeX) limit(maxComputeWorkgroupSizeY) \
    limit(maxComputeWorkgroupSizeZ) limit(maxComputeWorkgroupsPerDimension)

// gt_ask turns what an adapter has into what the library can be asked for. All bits set, which NVIDIA's drivers say of the size of a buffer, would ask for
// nothing: the device would get WebGPU's default, 256 MiB.
static inline void gt_ask(WGPULimits *l) {
#define ASK(name) if (!(l->name + 1)) l->name--;
    GT_LIMITS(ASK)
#undef ASK
}

// gt_lacks tells whether a device has less of some limit than was asked for, and of which.
static inline int gt_lacks(WGPULimits const *has, WGPULimits const *asked, char *message, size_t size) {
#define LACKS(name) \
    if (has->name < asked->name) { \
        snprintf(message, size, "limit %s: found %llu, wanted %llu", #name, (unsigned long long)has->name, (unsigned long long)asked->name); \
        return 1; \
    }
    GT_LIMITS(LACKS)
#undef LACKS
    return 0;
}

#endif
