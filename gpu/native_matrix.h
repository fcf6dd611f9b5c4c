// What Go calls of the hook below the library. See native_matrix.c.
#ifndef GPUTRAIN_NATIVE_MATRIX_H
#define GPUTRAIN_NATIVE_MATRIX_H

#include "native.h"

enum { GT_MATRIX_SHAPES = 32 };

// The matrix units of an adapter that multiply f16 and add up in f32: shapes M x N x K. lanes: invocations of the smallest subgroup that a kernel may ask
// for; subgroups: at most, of a workgroup.
typedef struct gt_matrix {
    uint32_t count, lanes, subgroups;
    uint32_t shapes[GT_MATRIX_SHAPES][3];
} gt_matrix;

// What Vulkan tells of an adapter and WebGPU does not.
typedef struct gt_vulkan {
    uint32_t multiprocessors; // 0: the driver does not tell
    float tick;               // nanoseconds of a tick of timestamps; 0: not known
    gt_matrix matrix;
} gt_vulkan;

// gt_vulkan_describe tells of Vulkan's adapters of a name, in their order, and returns how many these are, at most room.
uint32_t gt_vulkan_describe(char const *name, gt_vulkan *, uint32_t room);

// gt_open of a device with matrix units; *granted: the driver has made it so.
gt_device *gt_matrix_open(WGPUAdapter, char const *label, int timestamps, int texels, int alone, gt_error *, int *granted);

// What came by the hook while a pipeline was made, and why a module could not be rewritten, "" where it could.
typedef struct gt_matrix_passed {
    int modules, pipelines;
    char failed[256];
} gt_matrix_passed;

// gt_pipeline_make of a kernel with units M x N x K, by subgroups of so many invocations.
int gt_matrix_pipeline(gt_device *, char const *label, char const *wgsl, size_t bindings, uint32_t const *types, uint32_t const *shape, uint32_t lanes,
    gt_pipeline *, gt_matrix_passed *, gt_error *);

#endif
