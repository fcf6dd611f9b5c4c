// The steps of native.h. Two rules keep errors exact and the process alive:
//
// 1. The library calls the uncaptured-error callback on the thread of the failing call, before that call returns. So a call
//    made between gt_enter and gt_leave finds its own error in thread-local memory, whatever other threads do on the device
//    meanwhile (the library's error scopes are one stack for all threads).
// 2. What the library keeps beyond a call (callback data) is C memory; Go sees it through functions only.
#include "native_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct gt_fence {
    atomic_int done;
    atomic_uint status;
};

static _Thread_local gt_error *gt_current;

#ifdef _WIN32
#include <windows.h>
static void gt_sleep(long us) {
    if (us < 100) {
        SwitchToThread();
    } else {
        Sleep(1);
    }
}
#else
static void gt_sleep(long us) {
    struct timespec t = {us / 1000000, (us % 1000000) * 1000};
    nanosleep(&t, NULL);
}
#endif

static void gt_spin(atomic_flag *f) {
    while (atomic_flag_test_and_set(f)) gt_sleep(50);
}

void gt_copy(char *dst, size_t size, char const *src) {
    snprintf(dst, size, "%s", src ? src : "");
}

static void gt_collect(gt_error *e) {
    if (e) {
        e->type = 0;
        e->message[0] = 0;
    }
    gt_current = e;
}

void gt_enter(gt_device *d, gt_error *e) {
    for (int none = 0; !atomic_compare_exchange_weak(&d->busy, &none, -1); none = 0) gt_sleep(20);
    gt_collect(e);
}

void gt_enter_shared(gt_device *d, gt_error *e) {
    if (d->alone) {
        gt_enter(d, e);
        return;
    }
    for (;;) {
        int n = atomic_load(&d->busy);
        if (n >= 0 && atomic_compare_exchange_weak(&d->busy, &n, n + 1)) break;
        gt_sleep(20);
    }
    gt_collect(e);
}

void gt_leave(gt_device *d) {
    if (atomic_load(&d->busy) < 0) {
        atomic_store(&d->busy, 0);
    } else {
        atomic_fetch_sub(&d->busy, 1);
    }
    gt_current = NULL;
}

int gt_collecting(void) { return gt_current != NULL; }

void gt_on_error(uint32_t type, char const *message, void *userdata) {
    gt_device *d = userdata;
    if (type == WGPUErrorType_DeviceLost) gt_lose(d, message, 1);
    gt_error *e = gt_current;
    if (e) {
        if (e->type) return; // the first one tells the cause
        e->type = type;
        gt_copy(e->message, sizeof e->message, message);
        return;
    }
    gt_spin(&d->guard);
    if (!d->pending) {
        d->pending = 1;
        d->pending_error.type = type;
        gt_copy(d->pending_error.message, sizeof d->pending_error.message, message);
    }
    atomic_flag_clear(&d->guard);
}

void gt_on_lost(uint32_t reason, char const *message, void *userdata) {
    (void)reason;
    gt_lose(userdata, message, 1);
}

void gt_lose(gt_device *d, char const *message, int by_driver) {
    if (atomic_load(&d->closed)) return;
    gt_spin(&d->guard);
    if (!atomic_load(&d->lost)) gt_copy(d->lost_message, sizeof d->lost_message, message);
    if (by_driver) {
        atomic_store(&d->lost, 2);
    } else if (!atomic_load(&d->lost)) {
        atomic_store(&d->lost, 1);
    }
    atomic_flag_clear(&d->guard);
}

int gt_lost(gt_device *d, char *message, size_t size) {
    int lost = atomic_load(&d->lost);
    if (!lost || !message) return lost;
    gt_spin(&d->guard);
    gt_copy(message, size, d->lost_message);
    atomic_flag_clear(&d->guard);
    return lost;
}

int gt_pending(gt_device *d, gt_error *e) {
    gt_spin(&d->guard);
    int had = d->pending;
    if (had && e) {
        *e = d->pending_error;
        d->pending = 0;
    }
    atomic_flag_clear(&d->guard);
    return had;
}

WGPUBuffer gt_buffer(gt_device *d, char const *label, WGPUFlags usage, uint64_t bytes, gt_error *error) {
    WGPUBufferDescriptor descriptor = {.label = label, .usage = usage, .size = bytes};
    gt_enter(d, error);
    WGPUBuffer buffer = wgpuDeviceCreateBuffer(d->device, &descriptor);
    if (error->type && buffer) {
        wgpuBufferRelease(buffer);
        buffer = NULL;
    }
    gt_leave(d);
    return buffer;
}

void gt_buffer_release(gt_device *d, WGPUBuffer buffer) {
    gt_enter(d, NULL);
    wgpuBufferDestroy(buffer);
    wgpuBufferRelease(buffer);
    gt_leave(d);
}

void gt_texels_make(gt_device *d, char const *label, uint64_t bytes, gt_texels *out, gt_error *error) {
    uint64_t row = (uint64_t)GT_TEXEL_ROW * GT_TEXEL_BYTES, width = bytes < GT_TEXEL_ROWS * row ? bytes / GT_TEXEL_ROWS : row;
    WGPUTextureDescriptor descriptor = {
        .label = label,
        .usage = WGPUTextureUsage_CopyDst | WGPUTextureUsage_StorageBinding,
        .dimension = WGPUTextureDimension_2D,
        .size = {(uint32_t)(width / GT_TEXEL_BYTES), (uint32_t)(bytes / width), 1},
        .format = WGPUTextureFormat_RGBA32Float,
        .mipLevelCount = 1,
        .sampleCount = 1,
    };
    memset(out, 0, sizeof *out);
    gt_enter(d, error);
    out->texture = wgpuDeviceCreateTexture(d->device, &descriptor);
    if (!error->type) out->view = wgpuTextureCreateView(out->texture, NULL);
    if (error->type) {
        if (out->texture) wgpuTextureRelease(out->texture);
        memset(out, 0, sizeof *out);
    }
    gt_leave(d);
}

void gt_texels_release(gt_device *d, gt_texels t) {
    gt_enter(d, NULL);
    wgpuTextureViewRelease(t.view);
    wgpuTextureDestroy(t.texture);
    wgpuTextureRelease(t.texture);
    gt_leave(d);
}

void gt_write(gt_device *d, WGPUBuffer buffer, uint64_t offset, void const *data, size_t bytes, gt_error *error) {
    gt_enter(d, error);
    wgpuQueueWriteBuffer(d->queue, buffer, offset, data, bytes);
    gt_leave(d);
}

int gt_pipeline_make(gt_device *d, char const *label, char const *wgsl, size_t n, uint32_t const *types, gt_pipeline *out, gt_error *error) {
    memset(out, 0, sizeof *out);
    WGPUBindGroupLayoutEntry *entries = calloc(n + 1, sizeof *entries);
    for (size_t i = 0; i < n; i++) {
        entries[i].binding = (uint32_t)i;
        entries[i].visibility = WGPUShaderStage_Compute;
        if (types[i] == GT_TEXELS || types[i] == GT_WRITTEN_TEXELS) {
            entries[i].storageTexture.access = types[i] == GT_TEXELS ? WGPUStorageTextureAccess_ReadOnly : WGPUStorageTextureAccess_WriteOnly;
            entries[i].storageTexture.format = WGPUTextureFormat_RGBA32Float;
            entries[i].storageTexture.viewDimension = WGPUTextureViewDimension_2D;
        } else {
            entries[i].buffer.type = types[i];
        }
    }
    WGPUShaderModuleWGSLDescriptor code = {.chain = {NULL, WGPUSType_ShaderModuleWGSLDescriptor}, .code = wgsl};
    WGPUShaderModuleDescriptor module_descriptor = {.nextInChain = &code.chain, .label = label};
    WGPUBindGroupLayoutDescriptor group_descriptor = {.label = label, .entryCount = n, .entries = entries};
    WGPUShaderModule module = NULL;
    WGPUPipelineLayout layout = NULL;

    gt_enter_shared(d, error);
    module = wgpuDeviceCreateShaderModule(d->device, &module_descriptor);
    if (!error->type) out->layout = wgpuDeviceCreateBindGroupLayout(d->device, &group_descriptor);
    if (!error->type) {
        WGPUPipelineLayoutDescriptor layout_descriptor = {.label = label, .bindGroupLayoutCount = 1, .bindGroupLayouts = &out->layout};
        layout = wgpuDeviceCreatePipelineLayout(d->device, &layout_descriptor);
    }
    if (!error->type) {
        WGPUComputePipelineDescriptor descriptor = {.label = label, .layout = layout, .compute = {.module = module, .entryPoint = "main"}};
        out->pipeline = wgpuDeviceCreateComputePipeline(d->device, &descriptor);
    }
    if (layout) wgpuPipelineLayoutRelease(layout);
    if (module) wgpuShaderModuleRelease(module);
    if (error->type) {
        if (out->pipeline) wgpuComputePipelineRelease(out->pipeline);
        if (out->layout) wgpuBindGroupLayoutRelease(out->layout);
        memset(out, 0, sizeof *out);
    }
    gt_leave(d);
    free(entries);
    return error->type == 0;
}

void gt_pipeline_release(gt_device *d, gt_pipeline p) {
    gt_enter(d, NULL);
    wgpuComputePipelineRelease(p.pipeline);
    wgpuBindGroupLayoutRelease(p.layout);
    gt_leave(d);
}

WGPUBindGroup gt_bind_group(gt_device *d, char const *label, WGPUBindGroupLayout layout, size_t n, gt_binding const *bindings, gt_error *error) {
    WGPUBindGroupEntry *entries = calloc(n + 1, sizeof *entries);
    for (size_t i = 0; i < n; i++) {
        entries[i].binding = (uint32_t)i;
        entries[i].buffer = bindings[i].buffer;
        entries[i].offset = bindings[i].offset;
        entries[i].size = bindings[i].bytes;
        entries[i].textureView = bindings[i].view;
    }
    WGPUBindGroupDescriptor descriptor = {.label = label, .layout = layout, .entryCount = n, .entries = entries};
    gt_enter(d, error);
    WGPUBindGroup group = wgpuDeviceCreateBindGroup(d->device, &descriptor);
    if (error->type && group) {
        wgpuBindGroupRelease(group);
        group = NULL;
    }
    gt_leave(d);
    free(entries);
    return group;
}

void gt_bind_group_release(gt_device *d, WGPUBindGroup group) {
    gt_enter(d, NULL);
    wgpuBindGroupRelease(group);
    gt_leave(d);
}

gt_fence *gt_fence_make(void) { return calloc(1, sizeof(gt_fence)); }
void gt_fence_release(gt_fence *f) { free(f); }
uint32_t gt_fence_status(gt_fence *f) { return atomic_load(&f->status); }

void gt_fence_reset(gt_fence *f) {
    atomic_store(&f->status, 0);
    atomic_store(&f->done, 0);
}

void gt_on_done(uint32_t status, void *userdata) {
    gt_fence *f = userdata;
    atomic_store(&f->status, status);
    atomic_store(&f->done, 1);
}

void gt_poll(gt_device *d) {
    gt_enter(d, NULL);
    wgpuDevicePoll(d->device, 0, NULL);
    gt_leave(d);
}

int gt_settled(gt_device *d, gt_fence *f) {
    if (!atomic_load(&f->done)) gt_poll(d);
    return atomic_load(&f->done);
}

// Polls, unless another thread is in the library: submits poll, too, and take as long as the work itself on a software adapter. Who waited for a turn
// would learn a step late of what is done.
static void gt_poll_if_free(gt_device *d) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&d->busy, &none, -1)) return;
    gt_collect(NULL);
    wgpuDevicePoll(d->device, 0, NULL);
    gt_leave(d);
}

// A wait of the library's own would hold other threads' submits; so polls, with pauses that leave a software adapter its cores.
int gt_wait(gt_device *d, gt_fence *f, uint32_t us) {
    long pause = 20;
    for (long slept = 0;;) {
        if (atomic_load(&f->done)) return 1;
        if (atomic_load(&d->lost)) return -1;
        gt_poll_if_free(d);
        if (atomic_load(&f->done)) return 1;
        if (slept >= (long)us) return 0;
        gt_sleep(pause);
        slept += pause;
        if (pause < 100) pause += 20;
    }
}

int gt_mapped_read(gt_device *d, WGPUBuffer buffer, uint64_t bytes, void *dst) {
    gt_enter(d, NULL);
    void const *src = wgpuBufferGetConstMappedRange(buffer, 0, bytes);
    if (src) memcpy(dst, src, bytes);
    wgpuBufferUnmap(buffer);
    gt_leave(d);
    return src != NULL;
}
