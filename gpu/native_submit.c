// Encoding and submitting the commands of programs: one call from Go for a whole step.
#include "native_device.h"

#include <stdlib.h>

struct gt_encoding {
    WGPUCommandEncoder encoder;
    WGPUComputePassEncoder pass; // open while dispatches follow each other
    WGPUComputePipeline pipeline;
    char const *label;
    gt_profile *profile;
    uint32_t groups;
};

static void gt_pass_begin(struct gt_encoding *e) {
    if (e->pass) return;
    WGPUComputePassTimestampWrites writes;
    WGPUComputePassDescriptor descriptor = {.label = e->label};
    gt_profile *p = e->profile;
    if (p && p->passes < p->capacity) {
        writes.querySet = p->queries;
        writes.beginningOfPassWriteIndex = 2 * p->passes;
        writes.endOfPassWriteIndex = 2 * p->passes + 1;
        descriptor.timestampWrites = &writes;
        p->group[p->passes++] = e->groups - 1;
    }
    e->pass = wgpuCommandEncoderBeginComputePass(e->encoder, &descriptor);
    e->pipeline = NULL;
}

static void gt_pass_end(struct gt_encoding *e) {
    if (!e->pass) return;
    wgpuComputePassEncoderEnd(e->pass);
    wgpuComputePassEncoderRelease(e->pass);
    e->pass = NULL;
}

// Copies a range of a buffer to texels: the whole rows, then what is left of the last one.
static void gt_refresh(struct gt_encoding *e, gt_command const *c) {
    uint32_t texels = (uint32_t)((c->bytes + GT_TEXEL_BYTES - 1) / GT_TEXEL_BYTES);
    WGPUImageCopyBuffer src = {.layout = {.offset = c->src_offset, .bytesPerRow = GT_TEXEL_ROW * GT_TEXEL_BYTES}, .buffer = c->src};
    WGPUImageCopyTexture dst = {.texture = c->texels};
    WGPUExtent3D rows = {GT_TEXEL_ROW, texels / GT_TEXEL_ROW, 1}, rest = {texels % GT_TEXEL_ROW, 1, 1};
    src.layout.rowsPerImage = rows.height;
    if (rows.height > 0) wgpuCommandEncoderCopyBufferToTexture(e->encoder, &src, &dst, &rows);
    src.layout.offset += (uint64_t)rows.height * GT_TEXEL_ROW * GT_TEXEL_BYTES;
    src.layout.rowsPerImage = 1;
    dst.origin.y = rows.height;
    if (rest.width > 0) wgpuCommandEncoderCopyBufferToTexture(e->encoder, &src, &dst, &rest);
}

static void gt_encode(struct gt_encoding *e, gt_command const *c, gt_staging const **staging) {
    switch (c->kind) {
    case GT_DISPATCH:
        gt_pass_begin(e);
        if (e->pipeline != c->pipeline) wgpuComputePassEncoderSetPipeline(e->pass, c->pipeline);
        e->pipeline = c->pipeline;
        wgpuComputePassEncoderSetBindGroup(e->pass, 0, c->group, 0, NULL);
        wgpuComputePassEncoderDispatchWorkgroups(e->pass, c->grid[0], c->grid[1], c->grid[2]);
        return;
    case GT_COPY:
        gt_pass_end(e);
        wgpuCommandEncoderCopyBufferToBuffer(e->encoder, c->src, c->src_offset, c->dst, c->dst_offset, c->bytes);
        return;
    case GT_ZERO:
        gt_pass_end(e);
        wgpuCommandEncoderClearBuffer(e->encoder, c->dst, c->dst_offset, c->bytes);
        return;
    case GT_READBACK:
        gt_pass_end(e);
        wgpuCommandEncoderCopyBufferToBuffer(e->encoder, c->src, c->src_offset, (*staging)->buffer, 0, c->bytes);
        (*staging)++;
        return;
    case GT_REFRESH:
        gt_pass_end(e);
        gt_refresh(e, c);
        return;
    case GT_GROUP:
        e->label = c->label;
        e->groups++;
        if (e->profile) gt_pass_end(e);
        return;
    }
}

int gt_submit(gt_device *d, char const *label, size_t lists, gt_list const *list, size_t stagings, gt_staging const *staging, gt_fence *done, gt_profile *profile, gt_error *error) {
    WGPUCommandEncoderDescriptor descriptor = {.label = label};
    WGPUCommandBufferDescriptor buffer_descriptor = {.label = label};
    WGPUCommandBuffer commands = NULL;
    gt_enter(d, error);
    if (lists > 0) {
        struct gt_encoding e = {.label = label, .profile = profile};
        e.encoder = wgpuDeviceCreateCommandEncoder(d->device, &descriptor);
        gt_staging const *next = staging;
        if (profile) profile->passes = 0;
        for (size_t l = 0; l < lists; l++)
            for (size_t i = 0; i < list[l].count && !error->type; i++) gt_encode(&e, &list[l].commands[i], &next);
        gt_pass_end(&e);
        if (profile && profile->passes > 0 && !error->type) {
            wgpuCommandEncoderResolveQuerySet(e.encoder, profile->queries, 0, 2 * profile->passes, profile->resolve, 0);
            wgpuCommandEncoderCopyBufferToBuffer(e.encoder, profile->resolve, 0, profile->staging, 0, 16 * (uint64_t)profile->passes);
        }
        if (!error->type) commands = wgpuCommandEncoderFinish(e.encoder, &buffer_descriptor);
        wgpuCommandEncoderRelease(e.encoder);
        if (error->type) { // submitting what did not encode would end the process
            if (commands) wgpuCommandBufferRelease(commands);
            gt_leave(d);
            return 0;
        }
    }
    wgpuQueueSubmitForIndex(d->queue, commands ? 1 : 0, &commands);
    if (commands) wgpuCommandBufferRelease(commands);
    for (size_t i = 0; i < stagings; i++)
        wgpuBufferMapAsync(staging[i].buffer, WGPUMapMode_Read, 0, staging[i].bytes, gt_on_done, staging[i].fence);
    if (profile && profile->passes > 0)
        wgpuBufferMapAsync(profile->staging, WGPUMapMode_Read, 0, 16 * (uint64_t)profile->passes, gt_on_done, profile->fence);
    if (done) wgpuQueueOnSubmittedWorkDone(d->queue, gt_on_done, done);
    gt_leave(d);
    return 1;
}

gt_profile *gt_profile_make(gt_device *d, uint32_t passes, gt_error *error) {
    gt_profile *p = calloc(1, sizeof *p);
    p->capacity = passes;
    p->group = calloc(passes, sizeof *p->group);
    p->fence = gt_fence_make();
    WGPUQuerySetDescriptor queries = {.label = "gputrain.gpu.profile", .type = WGPUQueryType_Timestamp, .count = 2 * passes};
    gt_enter(d, error);
    p->queries = wgpuDeviceCreateQuerySet(d->device, &queries);
    WGPUBufferDescriptor resolve = {.label = "gputrain.gpu.profile.resolve", .size = 16 * (uint64_t)passes, .usage = WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc};
    if (!error->type) p->resolve = wgpuDeviceCreateBuffer(d->device, &resolve);
    WGPUBufferDescriptor staging = {.label = "gputrain.gpu.profile.staging", .size = 16 * (uint64_t)passes, .usage = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst};
    if (!error->type) p->staging = wgpuDeviceCreateBuffer(d->device, &staging);
    gt_leave(d);
    if (error->type) {
        gt_profile_release(d, p);
        return NULL;
    }
    return p;
}

void gt_profile_release(gt_device *d, gt_profile *p) {
    gt_enter(d, NULL);
    if (p->staging) wgpuBufferRelease(p->staging);
    if (p->resolve) wgpuBufferRelease(p->resolve);
    if (p->queries) wgpuQuerySetRelease(p->queries);
    gt_leave(d);
    gt_fence_release(p->fence);
    free(p->group);
    free(p);
}
