// What surfaces need of the library beside native_abi.h, and held to its headers in the same way (TestABI).
#ifndef GPUTRAIN_SURFACE_ABI_H
#define GPUTRAIN_SURFACE_ABI_H

#include "native_abi.h"

typedef struct WGPUSurfaceImpl *WGPUSurface;
typedef struct WGPURenderPipelineImpl *WGPURenderPipeline;
typedef struct WGPURenderPassEncoderImpl *WGPURenderPassEncoder;

enum {
    WGPUSType_SurfaceDescriptorFromMetalLayer = 1,
    WGPUSType_SurfaceDescriptorFromWindowsHWND = 2,
    WGPUSType_SurfaceDescriptorFromXlibWindow = 3,

    WGPUTextureFormat_RGBA8Unorm = 0x12,
    WGPUTextureFormat_BGRA8Unorm = 0x17,
    WGPUTextureUsage_RenderAttachment = 0x10,

    WGPUPresentMode_Fifo = 0,
    WGPUPresentMode_Immediate = 2,
    WGPUPresentMode_Mailbox = 3,
    WGPUCompositeAlphaMode_Auto = 0,
    WGPUSurfaceGetCurrentTextureStatus_Success = 0,

    WGPUShaderStage_Vertex = 1,
    WGPUShaderStage_Fragment = 2,
    WGPUPrimitiveTopology_TriangleStrip = 4,
    WGPUColorWriteMask_All = 15,
    WGPUBlendFactor_One = 1,
    WGPUBlendFactor_SrcAlpha = 4,
    WGPUBlendFactor_OneMinusSrcAlpha = 5,
    WGPULoadOp_Clear = 1,
    WGPUStoreOp_Store = 1,
    WGPURequestAdapterStatus_Success = 0,
};

typedef struct WGPUSurfaceDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
} WGPUSurfaceDescriptor;

typedef struct WGPUSurfaceDescriptorFromXlibWindow {
    WGPUChainedStruct chain;
    void *display;
    uint64_t window;
} WGPUSurfaceDescriptorFromXlibWindow;

typedef struct WGPUSurfaceDescriptorFromMetalLayer {
    WGPUChainedStruct chain;
    void *layer;
} WGPUSurfaceDescriptorFromMetalLayer;

typedef struct WGPUSurfaceDescriptorFromWindowsHWND {
    WGPUChainedStruct chain;
    void *hinstance;
    void *hwnd;
} WGPUSurfaceDescriptorFromWindowsHWND;

typedef struct WGPUSurfaceCapabilities {
    WGPUChainedStruct *nextInChain;
    WGPUFlags usages;
    size_t formatCount;
    uint32_t const *formats;
    size_t presentModeCount;
    uint32_t const *presentModes;
    size_t alphaModeCount;
    uint32_t const *alphaModes;
} WGPUSurfaceCapabilities;

typedef struct WGPUSurfaceConfiguration {
    WGPUChainedStruct const *nextInChain;
    WGPUDevice device;
    uint32_t format;
    WGPUFlags usage;
    size_t viewFormatCount;
    uint32_t const *viewFormats;
    uint32_t alphaMode;
    uint32_t width;
    uint32_t height;
    uint32_t presentMode;
} WGPUSurfaceConfiguration;

typedef struct WGPUSurfaceTexture {
    WGPUTexture texture;
    WGPUBool suboptimal;
    uint32_t status;
} WGPUSurfaceTexture;

typedef struct WGPURequestAdapterOptions {
    WGPUChainedStruct const *nextInChain;
    WGPUSurface compatibleSurface;
    uint32_t powerPreference;
    uint32_t backendType;
    WGPUBool forceFallbackAdapter;
} WGPURequestAdapterOptions;

typedef struct WGPUColor {
    double r;
    double g;
    double b;
    double a;
} WGPUColor;

typedef struct WGPURenderPassColorAttachment {
    WGPUChainedStruct const *nextInChain;
    WGPUTextureView view;
    uint32_t depthSlice;
    WGPUTextureView resolveTarget;
    uint32_t loadOp;
    uint32_t storeOp;
    WGPUColor clearValue;
} WGPURenderPassColorAttachment;

typedef struct WGPURenderPassDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    size_t colorAttachmentCount;
    WGPURenderPassColorAttachment const *colorAttachments;
    void const *depthStencilAttachment;
    WGPUQuerySet occlusionQuerySet;
    void const *timestampWrites;
} WGPURenderPassDescriptor;

typedef struct WGPUVertexState {
    WGPUChainedStruct const *nextInChain;
    WGPUShaderModule module;
    char const *entryPoint;
    size_t constantCount;
    void const *constants;
    size_t bufferCount;
    void const *buffers;
} WGPUVertexState;

typedef struct WGPUPrimitiveState {
    WGPUChainedStruct const *nextInChain;
    uint32_t topology;
    uint32_t stripIndexFormat;
    uint32_t frontFace;
    uint32_t cullMode;
} WGPUPrimitiveState;

typedef struct WGPUMultisampleState {
    WGPUChainedStruct const *nextInChain;
    uint32_t count;
    uint32_t mask;
    WGPUBool alphaToCoverageEnabled;
} WGPUMultisampleState;

typedef struct WGPUBlendComponent {
    uint32_t operation;
    uint32_t srcFactor;
    uint32_t dstFactor;
} WGPUBlendComponent;

typedef struct WGPUBlendState {
    WGPUBlendComponent color;
    WGPUBlendComponent alpha;
} WGPUBlendState;

typedef struct WGPUColorTargetState {
    WGPUChainedStruct const *nextInChain;
    uint32_t format;
    WGPUBlendState const *blend;
    WGPUFlags writeMask;
} WGPUColorTargetState;

typedef struct WGPUFragmentState {
    WGPUChainedStruct const *nextInChain;
    WGPUShaderModule module;
    char const *entryPoint;
    size_t constantCount;
    void const *constants;
    size_t targetCount;
    WGPUColorTargetState const *targets;
} WGPUFragmentState;

typedef struct WGPURenderPipelineDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    WGPUPipelineLayout layout;
    WGPUVertexState vertex;
    WGPUPrimitiveState primitive;
    void const *depthStencil;
    WGPUMultisampleState multisample;
    WGPUFragmentState const *fragment;
} WGPURenderPipelineDescriptor;

typedef void (*WGPUInstanceRequestAdapterCallback)(uint32_t status, WGPUAdapter adapter, char const *message, void *userdata);

WGPUSurface wgpuInstanceCreateSurface(WGPUInstance, WGPUSurfaceDescriptor const *);
void wgpuInstanceRequestAdapter(WGPUInstance, WGPURequestAdapterOptions const *, WGPUInstanceRequestAdapterCallback, void *userdata);
void wgpuSurfaceGetCapabilities(WGPUSurface, WGPUAdapter, WGPUSurfaceCapabilities *);
void wgpuSurfaceCapabilitiesFreeMembers(WGPUSurfaceCapabilities);
void wgpuSurfaceConfigure(WGPUSurface, WGPUSurfaceConfiguration const *);
void wgpuSurfaceGetCurrentTexture(WGPUSurface, WGPUSurfaceTexture *);
void wgpuSurfacePresent(WGPUSurface);
void wgpuSurfaceRelease(WGPUSurface);
WGPURenderPipeline wgpuDeviceCreateRenderPipeline(WGPUDevice, WGPURenderPipelineDescriptor const *);
void wgpuRenderPipelineRelease(WGPURenderPipeline);
WGPURenderPassEncoder wgpuCommandEncoderBeginRenderPass(WGPUCommandEncoder, WGPURenderPassDescriptor const *);
void wgpuRenderPassEncoderSetPipeline(WGPURenderPassEncoder, WGPURenderPipeline);
void wgpuRenderPassEncoderSetBindGroup(WGPURenderPassEncoder, uint32_t index, WGPUBindGroup, size_t offsets, uint32_t const *);
void wgpuRenderPassEncoderDraw(WGPURenderPassEncoder, uint32_t vertices, uint32_t instances, uint32_t firstVertex, uint32_t firstInstance);
void wgpuRenderPassEncoderEnd(WGPURenderPassEncoder);
void wgpuRenderPassEncoderRelease(WGPURenderPassEncoder);

#endif
