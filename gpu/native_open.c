// Finding adapters and opening devices.
#include "native_device.h"
#include "native_library.h"
#include "native_limits.h"

#include <stdlib.h>
#include <string.h>

WGPUInstance gt_instance(WGPUFlags backends) {
    WGPUInstanceExtras extras = {.chain = {NULL, WGPUSType_InstanceExtras}, .backends = backends};
    WGPUInstanceDescriptor descriptor = {.nextInChain = &extras.chain};
    return wgpuCreateInstance(&descriptor);
}

size_t gt_adapters(WGPUInstance instance, WGPUAdapter *out, size_t capacity) {
    size_t n = wgpuInstanceEnumerateAdapters(instance, NULL, NULL);
    if (n == 0) return 0;
    WGPUAdapter *all = calloc(n, sizeof *all);
    n = wgpuInstanceEnumerateAdapters(instance, NULL, all);
    for (size_t i = 0; i < n; i++) {
        if (i < capacity) {
            out[i] = all[i];
        } else {
            wgpuAdapterRelease(all[i]);
        }
    }
    free(all);
    return n;
}

static void gt_limits(WGPUAdapter adapter, WGPULimits *limits, WGPUNativeLimits *native) {
    WGPUSupportedLimitsExtras extras = {.chain = {NULL, WGPUSType_SupportedLimitsExtras}};
    WGPUSupportedLimits supported = {.nextInChain = &extras.chain};
    wgpuAdapterGetLimits(adapter, &supported);
    *limits = supported.limits;
    *native = extras.limits;
}

void gt_adapter_describe(WGPUAdapter adapter, gt_adapter_info *out) {
    memset(out, 0, sizeof *out);
    WGPUAdapterInfo info = {0};
    wgpuAdapterGetInfo(adapter, &info);
    gt_copy(out->name, sizeof out->name, info.GT_ADAPTER_NAME);
    out->backend = info.backendType;
    out->type = info.adapterType;
    wgpuAdapterInfoFreeMembers(info);
    WGPUNativeLimits native;
    gt_limits(adapter, &out->limits, &native);
    out->timestamps = wgpuAdapterHasFeature(adapter, WGPUFeatureName_TimestampQuery);
    out->texels = wgpuAdapterHasFeature(adapter, WGPUNativeFeature_TextureAdapterSpecificFormatFeatures);
}

struct gt_request {
    uint32_t status;
    WGPUDevice device;
    gt_error *error;
};

static void gt_on_device(uint32_t status, WGPUDevice device, char const *message, void *userdata) {
    struct gt_request *r = userdata;
    r->status = status;
    r->device = device;
    if (status != 0) {
        r->error->type = WGPUErrorType_Unknown;
        gt_copy(r->error->message, sizeof r->error->message, message);
    }
}

gt_device *gt_open(WGPUAdapter adapter, char const *label, int timestamps, int texels, int alone, gt_error *error) {
    gt_device *d = calloc(1, sizeof *d);
    d->alone = alone;
    atomic_flag_clear(&d->guard);

    WGPURequiredLimitsExtras extras = {.chain = {NULL, WGPUSType_RequiredLimitsExtras}};
    WGPURequiredLimits required = {.nextInChain = &extras.chain};
    gt_limits(adapter, &required.limits, &extras.limits);
    gt_ask(&required.limits);
    extras.limits.maxPushConstantSize = 0;

    uint32_t features[2];
    size_t count = 0;
    if (timestamps) features[count++] = WGPUFeatureName_TimestampQuery;
    if (texels) features[count++] = WGPUNativeFeature_TextureAdapterSpecificFormatFeatures;
    WGPUDeviceDescriptor descriptor = {
        .label = label,
        .requiredFeatureCount = count,
        .requiredFeatures = features,
        .requiredLimits = &required,
        .deviceLostCallback = gt_on_lost,
        .deviceLostUserdata = d,
        .uncapturedErrorCallbackInfo = {.callback = gt_on_error, .userdata = d},
    };
    struct gt_request request = {.status = 1, .error = error};
    gt_enter(d, error);
    wgpuAdapterRequestDevice(adapter, &descriptor, gt_on_device, &request);
    gt_leave(d);
    if (request.status != 0 || !request.device) {
        if (!error->type) error->type = WGPUErrorType_Unknown;
        return NULL; // d stays: the library may hold its address
    }
    WGPUSupportedLimits granted = {0};
    wgpuDeviceGetLimits(request.device, &granted);
    if (gt_lacks(&granted.limits, &required.limits, error->message, sizeof error->message)) {
        error->type = WGPUErrorType_Unknown;
        wgpuDeviceRelease(request.device);
        return NULL;
    }
    d->device = request.device;
    d->queue = wgpuDeviceGetQueue(d->device);
    return d;
}

// The few bytes of d stay: the library keeps its address until the last object of the device is gone.
void gt_close(gt_device *d) {
    atomic_store(&d->closed, 1);
    gt_enter(d, NULL);
    wgpuQueueRelease(d->queue);
    wgpuDeviceRelease(d->device);
    gt_leave(d);
}
