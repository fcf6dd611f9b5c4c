// What surface_native.go calls: drawing on a window with the device that trains. See surface.c.
#ifndef GPUTRAIN_SURFACE_H
#define GPUTRAIN_SURFACE_H

#include "native.h"
#include "surface_abi.h"

// Where to draw; the fields of one window system are set.
typedef struct gt_window {
    void *xlib_display;
    uint64_t xlib_window;
    void *metal_layer;
    void *win32_instance, *win32_window;
} gt_window;

typedef struct gt_surface {
    WGPUSurface surface;
    WGPUDevice device;
    uint32_t format, present_mode;
    gt_fence *done; // of the newest frame
} gt_surface;

// A sheet is one draw call with its bindings, over all that is below it.
typedef struct gt_sheet {
    WGPURenderPipeline pipeline;
    WGPUBindGroup group;
} gt_sheet;

typedef struct gt_layer {
    gt_sheet sheet;
    uint32_t vertices, instances;
} gt_layer;

enum { GT_FRAME_SHOWN, GT_FRAME_REFUSED, GT_FRAME_FAILED };

gt_surface *gt_surface_make(gt_device *, WGPUInstance, WGPUAdapter, gt_window const *, gt_error *);
void gt_surface_configure(gt_device *, gt_surface *, uint32_t width, uint32_t height, gt_error *);
void gt_surface_release(gt_device *, gt_surface *);

int gt_sheet_make(gt_device *, gt_surface *, char const *label, char const *wgsl, size_t n, uint32_t const *types, WGPUBuffer const *, uint64_t const *offsets, uint64_t const *sizes, gt_sheet *, gt_error *);
void gt_sheet_release(gt_device *, gt_sheet);

// Draws the layers over each other and presents. REFUSED: the window system has no picture to draw on, as when the size has
// changed; configure again.
int gt_frame(gt_device *, gt_surface *, WGPUColor background, size_t layers, gt_layer const *, gt_error *);

#endif
