// What Go calls: coarse steps over wgpu-native, each with its error in a gt_error. See native.c.
#ifndef GPUTRAIN_NATIVE_H
#define GPUTRAIN_NATIVE_H

#include "native_abi.h"

enum { GT_MESSAGE = 4096 };

// The first error of a call; type is a WGPUErrorType, 0 for none.
typedef struct gt_error {
    uint32_t type;
    char message[GT_MESSAGE];
} gt_error;

typedef struct gt_adapter_info {
    char name[256];
    uint32_t backend, type, timestamps, texels;
    WGPULimits limits;
} gt_adapter_info;

typedef struct gt_device gt_device;
typedef struct gt_fence gt_fence; // set by the library when a map or a submit is done

typedef struct gt_pipeline {
    WGPUComputePipeline pipeline;
    WGPUBindGroupLayout layout;
} gt_pipeline;

enum { GT_DISPATCH, GT_COPY, GT_ZERO, GT_READBACK, GT_GROUP, GT_REFRESH };

// A texture read as consecutive texels of four f32, in rows of GT_TEXEL_ROW: texel i is at (i % GT_TEXEL_ROW, i / GT_TEXEL_ROW).
// There are GT_TEXEL_ROWS, of fewer texels where one row holds all, or more of them.
enum { GT_TEXEL_ROW = 4096, GT_TEXEL_ROWS = 3, GT_TEXEL_BYTES = 16 };
typedef struct gt_texels {
    WGPUTexture texture;
    WGPUTextureView view;
} gt_texels;

// What a bind group binds at one place: a range of a buffer, or the view of texels.
typedef struct gt_binding {
    WGPUBuffer buffer;
    uint64_t offset, bytes;
    WGPUTextureView view;
} gt_binding;

enum { GT_TEXELS = 0x100, GT_WRITTEN_TEXELS }; // the types of bindings of texels, beside the library's types of buffers

// One command of a program, made once and encoded at every submit.
typedef struct gt_command {
    uint32_t kind;
    uint32_t grid[3];
    WGPUComputePipeline pipeline;
    WGPUBindGroup group;
    WGPUBuffer src, dst;
    WGPUTexture texels; // GT_REFRESH: filled from src
    uint64_t src_offset, dst_offset, bytes;
    char const *label; // GT_GROUP
} gt_command;

typedef struct gt_list {
    gt_command const *commands;
    size_t count;
} gt_list;

// Where one GT_READBACK of a submit goes; its buffer is mapped after the submit.
typedef struct gt_staging {
    WGPUBuffer buffer;
    uint64_t bytes;
    gt_fence *fence;
} gt_staging;

// Timestamps of one submit: two a pass, up to capacity passes.
typedef struct gt_profile {
    WGPUQuerySet queries;
    WGPUBuffer resolve, staging;
    gt_fence *fence;
    uint32_t capacity, passes;
    uint32_t *group; // of pass i: how many GT_GROUP commands came before it, less one
} gt_profile;

void gt_log_init(void);
void gt_log_level(uint32_t level);

int gt_opengl_usable(void);
WGPUInstance gt_instance(WGPUFlags backends);
size_t gt_adapters(WGPUInstance, WGPUAdapter *out, size_t capacity); // returns how many there are
void gt_adapter_describe(WGPUAdapter, gt_adapter_info *);

gt_device *gt_open(WGPUAdapter, char const *label, int timestamps, int texels, int alone, gt_error *);
void gt_close(gt_device *);
int gt_lost(gt_device *, char *message, size_t size); // 0 no, 1 declared by gt_lose, 2 by the driver; message may be NULL
void gt_lose(gt_device *, char const *message, int by_driver);
int gt_pending(gt_device *, gt_error *); // an error that came outside a call of ours, taken unless NULL

WGPUBuffer gt_buffer(gt_device *, char const *label, WGPUFlags usage, uint64_t bytes, gt_error *);
void gt_buffer_release(gt_device *, WGPUBuffer);
void gt_texels_make(gt_device *, char const *label, uint64_t bytes, gt_texels *, gt_error *);
void gt_texels_release(gt_device *, gt_texels);
void gt_write(gt_device *, WGPUBuffer, uint64_t offset, void const *data, size_t bytes, gt_error *);

int gt_pipeline_make(gt_device *, char const *label, char const *wgsl, size_t bindings, uint32_t const *types, gt_pipeline *, gt_error *);
void gt_pipeline_release(gt_device *, gt_pipeline);
WGPUBindGroup gt_bind_group(gt_device *, char const *label, WGPUBindGroupLayout, size_t n, gt_binding const *, gt_error *);
void gt_bind_group_release(gt_device *, WGPUBindGroup);

gt_profile *gt_profile_make(gt_device *, uint32_t passes, gt_error *);
void gt_profile_release(gt_device *, gt_profile *);

// Encodes the lists into one command buffer and submits it. With an error nothing was submitted. profile may be null.
int gt_submit(gt_device *, char const *label, size_t lists, gt_list const *, size_t stagings, gt_staging const *, gt_fence *done, gt_profile *, gt_error *);

gt_fence *gt_fence_make(void);
void gt_fence_release(gt_fence *);
void gt_fence_reset(gt_fence *);
uint32_t gt_fence_status(gt_fence *);             // of the library's callback, 0 for success
int gt_wait(gt_device *, gt_fence *, uint32_t us); // polls with pauses: 1 done, 0 not yet, -1 the device is lost
int gt_settled(gt_device *, gt_fence *);           // polls once, lost or not
void gt_poll(gt_device *);

int gt_mapped_read(gt_device *, WGPUBuffer, uint64_t bytes, void *dst); // copies out and unmaps; 0 when it is not mapped

#endif
