//go:build window

// Surfaces. Everything happens between gt_enter and gt_leave as in native.c, and what the library would end the process
// over is asked first: whether the adapter can show on the window at all, and in what formats.
#include "native_device.h"
#include "surface.h"

#include <stdlib.h>
#include <string.h>

static WGPUSurface gt_surface_of(WGPUInstance instance, gt_window const *w) {
    WGPUSurfaceDescriptorFromXlibWindow xlib = {.chain = {NULL, WGPUSType_SurfaceDescriptorFromXlibWindow}, .display = w->xlib_display, .window = w->xlib_window};
    WGPUSurfaceDescriptorFromMetalLayer metal = {.chain = {NULL, WGPUSType_SurfaceDescriptorFromMetalLayer}, .layer = w->metal_layer};
    WGPUSurfaceDescriptorFromWindowsHWND win32 = {.chain = {NULL, WGPUSType_SurfaceDescriptorFromWindowsHWND}, .hinstance = w->win32_instance, .hwnd = w->win32_window};
    WGPUSurfaceDescriptor descriptor = {.label = "gputrain.gpu.surface"};
    descriptor.nextInChain = w->xlib_display ? &xlib.chain : w->metal_layer ? &metal.chain : &win32.chain;
    return wgpuInstanceCreateSurface(instance, &descriptor);
}

static void gt_on_adapter(uint32_t status, WGPUAdapter adapter, char const *message, void *userdata) {
    (void)message;
    if (status != WGPURequestAdapterStatus_Success || !adapter) return;
    *(int *)userdata = 1;
    wgpuAdapterRelease(adapter);
}

static int gt_has(size_t n, uint32_t const *list, uint32_t x) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == x) return 1;
    return 0;
}

// gt_choose takes a format whose numbers are colours as they are given, and a mode that does not wait for the screen: to
// wait would hold the device.
static int gt_choose(gt_surface *s, WGPUAdapter adapter) {
    WGPUSurfaceCapabilities can = {0};
    wgpuSurfaceGetCapabilities(s->surface, adapter, &can);
    uint32_t const formats[] = {WGPUTextureFormat_BGRA8Unorm, WGPUTextureFormat_RGBA8Unorm};
    uint32_t const modes[] = {WGPUPresentMode_Mailbox, WGPUPresentMode_Immediate, WGPUPresentMode_Fifo};
    int format = 0, mode = 0;
    for (size_t i = 0; i < 2 && !format; i++)
        if ((format = gt_has(can.formatCount, can.formats, formats[i]))) s->format = formats[i];
    for (size_t i = 0; i < 3 && !mode; i++)
        if ((mode = gt_has(can.presentModeCount, can.presentModes, modes[i]))) s->present_mode = modes[i];
    wgpuSurfaceCapabilitiesFreeMembers(can);
    return format && mode;
}

gt_surface *gt_surface_make(gt_device *d, WGPUInstance instance, WGPUAdapter adapter, gt_window const *w, gt_error *error) {
    gt_surface *s = calloc(1, sizeof *s);
    int any = 0;
    gt_enter(d, error);
    s->surface = gt_surface_of(instance, w);
    if (s->surface) {
        // The library panics when asked for the capabilities of a surface that its backend could not make.
        WGPURequestAdapterOptions options = {.compatibleSurface = s->surface};
        wgpuInstanceRequestAdapter(instance, &options, gt_on_adapter, &any);
    }
    if (any && gt_choose(s, adapter)) {
        s->device = d->device;
        s->done = gt_fence_make();
        gt_on_done(0, s->done);
    } else {
        if (s->surface) wgpuSurfaceRelease(s->surface);
        free(s);
        s = NULL;
        if (!error->type) {
            error->type = WGPUErrorType_Unknown;
            gt_copy(error->message, sizeof error->message, "the adapter cannot show on this window");
        }
    }
    gt_leave(d);
    return s;
}

void gt_surface_configure(gt_device *d, gt_surface *s, uint32_t width, uint32_t height, gt_error *error) {
    WGPUSurfaceConfiguration c = {
        .device = s->device,
        .format = s->format,
        .usage = WGPUTextureUsage_RenderAttachment,
        .alphaMode = WGPUCompositeAlphaMode_Auto,
        .width = width,
        .height = height,
        .presentMode = s->present_mode,
    };
    gt_enter(d, error);
    wgpuSurfaceConfigure(s->surface, &c);
    gt_leave(d);
}

void gt_surface_release(gt_device *d, gt_surface *s) {
    gt_enter(d, NULL);
    wgpuSurfaceRelease(s->surface);
    gt_leave(d);
    // A fence that the library may still set stays with it.
    if (gt_settled(d, s->done)) gt_fence_release(s->done);
    free(s);
}

int gt_sheet_make(gt_device *d, gt_surface *s, char const *label, char const *wgsl, size_t n, uint32_t const *types, WGPUBuffer const *buffers, uint64_t const *offsets, uint64_t const *sizes, gt_sheet *out, gt_error *error) {
    memset(out, 0, sizeof *out);
    WGPUBindGroupLayoutEntry *entries = calloc(n + 1, sizeof *entries);
    WGPUBindGroupEntry *bound = calloc(n + 1, sizeof *bound);
    for (size_t i = 0; i < n; i++) {
        entries[i].binding = bound[i].binding = (uint32_t)i;
        entries[i].visibility = WGPUShaderStage_Vertex | WGPUShaderStage_Fragment;
        entries[i].buffer.type = types[i];
        bound[i].buffer = buffers[i];
        bound[i].offset = offsets[i];
        bound[i].size = sizes[i];
    }
    WGPUShaderModuleWGSLDescriptor code = {.chain = {NULL, WGPUSType_ShaderModuleWGSLDescriptor}, .code = wgsl};
    WGPUShaderModuleDescriptor module_descriptor = {.nextInChain = &code.chain, .label = label};
    WGPUBindGroupLayoutDescriptor layout_descriptor = {.label = label, .entryCount = n, .entries = entries};
    WGPUShaderModule module = NULL;
    WGPUBindGroupLayout layout = NULL;
    WGPUPipelineLayout pipeline_layout = NULL;

    gt_enter(d, error);
    module = wgpuDeviceCreateShaderModule(d->device, &module_descriptor);
    if (!error->type) layout = wgpuDeviceCreateBindGroupLayout(d->device, &layout_descriptor);
    if (!error->type) {
        WGPUPipelineLayoutDescriptor descriptor = {.label = label, .bindGroupLayoutCount = 1, .bindGroupLayouts = &layout};
        pipeline_layout = wgpuDeviceCreatePipelineLayout(d->device, &descriptor);
    }
    if (!error->type) {
        WGPUBlendState blend = {
            .color = {.srcFactor = WGPUBlendFactor_SrcAlpha, .dstFactor = WGPUBlendFactor_OneMinusSrcAlpha},
            .alpha = {.srcFactor = WGPUBlendFactor_One, .dstFactor = WGPUBlendFactor_OneMinusSrcAlpha},
        };
        WGPUColorTargetState target = {.format = s->format, .blend = &blend, .writeMask = WGPUColorWriteMask_All};
        WGPUFragmentState fragment = {.module = module, .entryPoint = "fragment", .targetCount = 1, .targets = &target};
        WGPURenderPipelineDescriptor descriptor = {
            .label = label,
            .layout = pipeline_layout,
            .vertex = {.module = module, .entryPoint = "vertex"},
            .primitive = {.topology = WGPUPrimitiveTopology_TriangleStrip},
            .multisample = {.count = 1, .mask = 0xffffffff},
            .fragment = &fragment,
        };
        out->pipeline = wgpuDeviceCreateRenderPipeline(d->device, &descriptor);
    }
    if (!error->type) {
        WGPUBindGroupDescriptor descriptor = {.label = label, .layout = layout, .entryCount = n, .entries = bound};
        out->group = wgpuDeviceCreateBindGroup(d->device, &descriptor);
    }
    if (pipeline_layout) wgpuPipelineLayoutRelease(pipeline_layout);
    if (layout) wgpuBindGroupLayoutRelease(layout);
    if (module) wgpuShaderModuleRelease(module);
    if (error->type) {
        if (out->group) wgpuBindGroupRelease(out->group);
        if (out->pipeline) wgpuRenderPipelineRelease(out->pipeline);
        memset(out, 0, sizeof *out);
    }
    gt_leave(d);
    free(entries);
    free(bound);
    return error->type == 0;
}

void gt_sheet_release(gt_device *d, gt_sheet sheet) {
    gt_enter(d, NULL);
    wgpuBindGroupRelease(sheet.group);
    wgpuRenderPipelineRelease(sheet.pipeline);
    gt_leave(d);
}

static WGPUCommandBuffer gt_paint(gt_device *d, WGPUTextureView view, WGPUColor background, size_t layers, gt_layer const *layer, gt_error *error) {
    WGPURenderPassColorAttachment target = {.view = view, .depthSlice = UINT32_MAX, .loadOp = WGPULoadOp_Clear, .storeOp = WGPUStoreOp_Store, .clearValue = background};
    WGPURenderPassDescriptor pass_descriptor = {.label = "gputrain.gpu.frame", .colorAttachmentCount = 1, .colorAttachments = &target};
    WGPUCommandEncoderDescriptor descriptor = {.label = "gputrain.gpu.frame"};
    WGPUCommandBufferDescriptor buffer_descriptor = {.label = "gputrain.gpu.frame"};
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(d->device, &descriptor);
    WGPURenderPassEncoder pass = wgpuCommandEncoderBeginRenderPass(encoder, &pass_descriptor);
    for (size_t i = 0; i < layers; i++) {
        if (!layer[i].instances) continue;
        wgpuRenderPassEncoderSetPipeline(pass, layer[i].sheet.pipeline);
        wgpuRenderPassEncoderSetBindGroup(pass, 0, layer[i].sheet.group, 0, NULL);
        wgpuRenderPassEncoderDraw(pass, layer[i].vertices, layer[i].instances, 0, 0);
    }
    wgpuRenderPassEncoderEnd(pass);
    wgpuRenderPassEncoderRelease(pass);
    WGPUCommandBuffer commands = error->type ? NULL : wgpuCommandEncoderFinish(encoder, &buffer_descriptor);
    wgpuCommandEncoderRelease(encoder);
    if (error->type && commands) { // submitting what did not encode would end the process
        wgpuCommandBufferRelease(commands);
        commands = NULL;
    }
    return commands;
}

int gt_frame(gt_device *d, gt_surface *s, WGPUColor background, size_t layers, gt_layer const *layer, gt_error *error) {
    int outcome = GT_FRAME_REFUSED;
    WGPUSurfaceTexture picture = {0};
    gt_enter(d, error);
    wgpuSurfaceGetCurrentTexture(s->surface, &picture);
    if (picture.status == WGPUSurfaceGetCurrentTextureStatus_Success && picture.texture) {
        WGPUTextureView view = wgpuTextureCreateView(picture.texture, NULL);
        WGPUCommandBuffer commands = gt_paint(d, view, background, layers, layer, error);
        outcome = GT_FRAME_FAILED;
        if (commands) {
            gt_fence_reset(s->done);
            wgpuQueueSubmitForIndex(d->queue, 1, &commands);
            wgpuCommandBufferRelease(commands);
            wgpuQueueOnSubmittedWorkDone(d->queue, gt_on_done, s->done);
            wgpuSurfacePresent(s->surface);
            outcome = GT_FRAME_SHOWN;
        }
        wgpuTextureViewRelease(view);
    }
    if (picture.texture) wgpuTextureRelease(picture.texture);
    gt_leave(d);
    return outcome;
}
