// The part of the C interface of wgpu-native (webgpu.h and wgpu.h of github.com/cogentcore/webgpu v0.23.0) that this
// package calls, declared by hand because cgo cannot include a header from the module cache. The binding brings the static
// libraries, of two versions (native_library.h). Names are the library's; TestABI compares every struct, offset and constant
// with the headers of both.
#ifndef GPUTRAIN_NATIVE_ABI_H
#define GPUTRAIN_NATIVE_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t WGPUBool;
typedef uint32_t WGPUFlags;

typedef struct WGPUInstanceImpl *WGPUInstance;
typedef struct WGPUAdapterImpl *WGPUAdapter;
typedef struct WGPUDeviceImpl *WGPUDevice;
typedef struct WGPUQueueImpl *WGPUQueue;
typedef struct WGPUBufferImpl *WGPUBuffer;
typedef struct WGPUBindGroupImpl *WGPUBindGroup;
typedef struct WGPUBindGroupLayoutImpl *WGPUBindGroupLayout;
typedef struct WGPUPipelineLayoutImpl *WGPUPipelineLayout;
typedef struct WGPUShaderModuleImpl *WGPUShaderModule;
typedef struct WGPUComputePipelineImpl *WGPUComputePipeline;
typedef struct WGPUCommandEncoderImpl *WGPUCommandEncoder;
typedef struct WGPUCommandBufferImpl *WGPUCommandBuffer;
typedef struct WGPUComputePassEncoderImpl *WGPUComputePassEncoder;
typedef struct WGPUQuerySetImpl *WGPUQuerySet;
typedef struct WGPUSamplerImpl *WGPUSampler;
typedef struct WGPUTextureImpl *WGPUTexture;
typedef struct WGPUTextureViewImpl *WGPUTextureView;

// Every enum of the library is forced to 32 bits.
enum {
    WGPUAdapterType_DiscreteGPU = 0,
    WGPUAdapterType_IntegratedGPU = 1,
    WGPUAdapterType_CPU = 2,

    WGPUBackendType_D3D12 = 4,
    WGPUBackendType_Metal = 5,
    WGPUBackendType_Vulkan = 6,
    WGPUBackendType_OpenGL = 7,
    WGPUBackendType_OpenGLES = 8,

    WGPUInstanceBackend_Vulkan = 1,
    WGPUInstanceBackend_GL = 2,
    WGPUInstanceBackend_Metal = 4,
    WGPUInstanceBackend_DX12 = 8,

    WGPUBufferBindingType_Uniform = 1,
    WGPUBufferBindingType_Storage = 2,
    WGPUBufferBindingType_ReadOnlyStorage = 3,

    WGPUBufferUsage_MapRead = 0x1,
    WGPUBufferUsage_CopySrc = 0x4,
    WGPUBufferUsage_CopyDst = 0x8,
    WGPUBufferUsage_Uniform = 0x40,
    WGPUBufferUsage_Storage = 0x80,
    WGPUBufferUsage_QueryResolve = 0x200,

    WGPUTextureDimension_2D = 1,
    WGPUTextureViewDimension_2D = 2,
    WGPUTextureFormat_RGBA32Float = 0x23,
    WGPUTextureUsage_CopyDst = 0x2,
    WGPUTextureUsage_StorageBinding = 0x8,
    WGPUStorageTextureAccess_WriteOnly = 1,
    WGPUStorageTextureAccess_ReadOnly = 2,

    WGPUMapMode_Read = 1,
    WGPUShaderStage_Compute = 4,
    WGPUFeatureName_TimestampQuery = 3,
    WGPUNativeFeature_TextureAdapterSpecificFormatFeatures = 0x00030002,
    WGPUQueryType_Timestamp = 1,

    WGPUErrorType_Validation = 1,
    WGPUErrorType_OutOfMemory = 2,
    WGPUErrorType_Internal = 3,
    WGPUErrorType_Unknown = 4,
    WGPUErrorType_DeviceLost = 5,

    WGPUSType_ShaderModuleWGSLDescriptor = 6,
    WGPUSType_RequiredLimitsExtras = 0x00030002,
    WGPUSType_SupportedLimitsExtras = 0x00030005,
    WGPUSType_InstanceExtras = 0x00030006,

    WGPULogLevel_Off = 0,
    WGPULogLevel_Error = 1,
    WGPULogLevel_Warn = 2,
    WGPULogLevel_Info = 3,
    WGPULogLevel_Debug = 4,
    WGPULogLevel_Trace = 5,
};

typedef struct WGPUChainedStruct {
    struct WGPUChainedStruct const *next;
    uint32_t sType;
} WGPUChainedStruct;

typedef struct WGPUInstanceExtras {
    WGPUChainedStruct chain;
    WGPUFlags backends;
    WGPUFlags flags;
    uint32_t dx12ShaderCompiler;
    uint32_t gles3MinorVersion;
    char const *dxilPath;
    char const *dxcPath;
} WGPUInstanceExtras;

typedef struct WGPUInstanceDescriptor {
    WGPUChainedStruct const *nextInChain;
} WGPUInstanceDescriptor;

typedef struct WGPUAdapterInfo {
    WGPUChainedStruct *nextInChain;
    char const *vendor;
    char const *architecture;
    char const *device;
    char const *description;
    uint32_t backendType;
    uint32_t adapterType;
    uint32_t vendorID;
    uint32_t deviceID;
} WGPUAdapterInfo;

typedef struct WGPULimits {
    uint32_t maxTextureDimension1D;
    uint32_t maxTextureDimension2D;
    uint32_t maxTextureDimension3D;
    uint32_t maxTextureArrayLayers;
    uint32_t maxBindGroups;
    uint32_t maxBindGroupsPlusVertexBuffers;
    uint32_t maxBindingsPerBindGroup;
    uint32_t maxDynamicUniformBuffersPerPipelineLayout;
    uint32_t maxDynamicStorageBuffersPerPipelineLayout;
    uint32_t maxSampledTexturesPerShaderStage;
    uint32_t maxSamplersPerShaderStage;
    uint32_t maxStorageBuffersPerShaderStage;
    uint32_t maxStorageTexturesPerShaderStage;
    uint32_t maxUniformBuffersPerShaderStage;
    uint64_t maxUniformBufferBindingSize;
    uint64_t maxStorageBufferBindingSize;
    uint32_t minUniformBufferOffsetAlignment;
    uint32_t minStorageBufferOffsetAlignment;
    uint32_t maxVertexBuffers;
    uint64_t maxBufferSize;
    uint32_t maxVertexAttributes;
    uint32_t maxVertexBufferArrayStride;
    uint32_t maxInterStageShaderComponents;
    uint32_t maxInterStageShaderVariables;
    uint32_t maxColorAttachments;
    uint32_t maxColorAttachmentBytesPerSample;
    uint32_t maxComputeWorkgroupStorageSize;
    uint32_t maxComputeInvocationsPerWorkgroup;
    uint32_t maxComputeWorkgroupSizeX;
    uint32_t maxComputeWorkgroupSizeY;
    uint32_t maxComputeWorkgroupSizeZ;
    uint32_t maxComputeWorkgroupsPerDimension;
} WGPULimits;

typedef struct WGPUSupportedLimits {
    WGPUChainedStruct *nextInChain;
    WGPULimits limits;
} WGPUSupportedLimits;

typedef struct WGPURequiredLimits {
    WGPUChainedStruct const *nextInChain;
    WGPULimits limits;
} WGPURequiredLimits;

typedef struct WGPUNativeLimits {
    uint32_t maxPushConstantSize;
    uint32_t maxNonSamplerBindings;
} WGPUNativeLimits;

typedef struct WGPURequiredLimitsExtras {
    WGPUChainedStruct chain;
    WGPUNativeLimits limits;
} WGPURequiredLimitsExtras;

typedef struct WGPUSupportedLimitsExtras {
    WGPUChainedStruct chain;
    WGPUNativeLimits limits;
} WGPUSupportedLimitsExtras;

typedef struct WGPUQueueDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
} WGPUQueueDescriptor;

typedef void (*WGPUErrorCallback)(uint32_t type, char const *message, void *userdata);
typedef void (*WGPUDeviceLostCallback)(uint32_t reason, char const *message, void *userdata);
typedef void (*WGPUAdapterRequestDeviceCallback)(uint32_t status, WGPUDevice device, char const *message, void *userdata);
typedef void (*WGPUBufferMapAsyncCallback)(uint32_t status, void *userdata);
typedef void (*WGPUQueueOnSubmittedWorkDoneCallback)(uint32_t status, void *userdata);
typedef void (*WGPULogCallback)(uint32_t level, char const *message, void *userdata);

typedef struct WGPUUncapturedErrorCallbackInfo {
    WGPUChainedStruct const *nextInChain;
    WGPUErrorCallback callback;
    void *userdata;
} WGPUUncapturedErrorCallbackInfo;

typedef struct WGPUDeviceDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    size_t requiredFeatureCount;
    uint32_t const *requiredFeatures;
    WGPURequiredLimits const *requiredLimits;
    WGPUQueueDescriptor defaultQueue;
    WGPUDeviceLostCallback deviceLostCallback;
    void *deviceLostUserdata;
    WGPUUncapturedErrorCallbackInfo uncapturedErrorCallbackInfo;
} WGPUDeviceDescriptor;

typedef struct WGPUBufferDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    WGPUFlags usage;
    uint64_t size;
    WGPUBool mappedAtCreation;
} WGPUBufferDescriptor;

typedef struct WGPUBufferBindingLayout {
    WGPUChainedStruct const *nextInChain;
    uint32_t type;
    WGPUBool hasDynamicOffset;
    uint64_t minBindingSize;
} WGPUBufferBindingLayout;

typedef struct WGPUSamplerBindingLayout {
    WGPUChainedStruct const *nextInChain;
    uint32_t type;
} WGPUSamplerBindingLayout;

typedef struct WGPUTextureBindingLayout {
    WGPUChainedStruct const *nextInChain;
    uint32_t sampleType;
    uint32_t viewDimension;
    WGPUBool multisampled;
} WGPUTextureBindingLayout;

typedef struct WGPUStorageTextureBindingLayout {
    WGPUChainedStruct const *nextInChain;
    uint32_t access;
    uint32_t format;
    uint32_t viewDimension;
} WGPUStorageTextureBindingLayout;

typedef struct WGPUBindGroupLayoutEntry {
    WGPUChainedStruct const *nextInChain;
    uint32_t binding;
    WGPUFlags visibility;
    WGPUBufferBindingLayout buffer;
    WGPUSamplerBindingLayout sampler;
    WGPUTextureBindingLayout texture;
    WGPUStorageTextureBindingLayout storageTexture;
} WGPUBindGroupLayoutEntry;

typedef struct WGPUBindGroupLayoutDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    size_t entryCount;
    WGPUBindGroupLayoutEntry const *entries;
} WGPUBindGroupLayoutDescriptor;

typedef struct WGPUBindGroupEntry {
    WGPUChainedStruct const *nextInChain;
    uint32_t binding;
    WGPUBuffer buffer;
    uint64_t offset;
    uint64_t size;
    WGPUSampler sampler;
    WGPUTextureView textureView;
} WGPUBindGroupEntry;

typedef struct WGPUBindGroupDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    WGPUBindGroupLayout layout;
    size_t entryCount;
    WGPUBindGroupEntry const *entries;
} WGPUBindGroupDescriptor;

typedef struct WGPUExtent3D {
    uint32_t width;
    uint32_t height;
    uint32_t depthOrArrayLayers;
} WGPUExtent3D;

typedef struct WGPUOrigin3D {
    uint32_t x;
    uint32_t y;
    uint32_t z;
} WGPUOrigin3D;

typedef struct WGPUTextureDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    WGPUFlags usage;
    uint32_t dimension;
    WGPUExtent3D size;
    uint32_t format;
    uint32_t mipLevelCount;
    uint32_t sampleCount;
    size_t viewFormatCount;
    uint32_t const *viewFormats;
} WGPUTextureDescriptor;

typedef struct WGPUTextureDataLayout {
    WGPUChainedStruct const *nextInChain;
    uint64_t offset;
    uint32_t bytesPerRow;
    uint32_t rowsPerImage;
} WGPUTextureDataLayout;

typedef struct WGPUImageCopyBuffer {
    WGPUChainedStruct const *nextInChain;
    WGPUTextureDataLayout layout;
    WGPUBuffer buffer;
} WGPUImageCopyBuffer;

typedef struct WGPUImageCopyTexture {
    WGPUChainedStruct const *nextInChain;
    WGPUTexture texture;
    uint32_t mipLevel;
    WGPUOrigin3D origin;
    uint32_t aspect;
} WGPUImageCopyTexture;

typedef struct WGPUPipelineLayoutDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    size_t bindGroupLayoutCount;
    WGPUBindGroupLayout const *bindGroupLayouts;
} WGPUPipelineLayoutDescriptor;

typedef struct WGPUShaderModuleDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    size_t hintCount;
    void const *hints;
} WGPUShaderModuleDescriptor;

typedef struct WGPUShaderModuleWGSLDescriptor {
    WGPUChainedStruct chain;
    char const *code;
} WGPUShaderModuleWGSLDescriptor;

typedef struct WGPUProgrammableStageDescriptor {
    WGPUChainedStruct const *nextInChain;
    WGPUShaderModule module;
    char const *entryPoint;
    size_t constantCount;
    void const *constants;
} WGPUProgrammableStageDescriptor;

typedef struct WGPUComputePipelineDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    WGPUPipelineLayout layout;
    WGPUProgrammableStageDescriptor compute;
} WGPUComputePipelineDescriptor;

typedef struct WGPUComputePassTimestampWrites {
    WGPUQuerySet querySet;
    uint32_t beginningOfPassWriteIndex;
    uint32_t endOfPassWriteIndex;
} WGPUComputePassTimestampWrites;

typedef struct WGPUComputePassDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    WGPUComputePassTimestampWrites const *timestampWrites;
} WGPUComputePassDescriptor;

typedef struct WGPUCommandEncoderDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
} WGPUCommandEncoderDescriptor;

typedef struct WGPUCommandBufferDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
} WGPUCommandBufferDescriptor;

typedef struct WGPUQuerySetDescriptor {
    WGPUChainedStruct const *nextInChain;
    char const *label;
    uint32_t type;
    uint32_t count;
} WGPUQuerySetDescriptor;

WGPUInstance wgpuCreateInstance(WGPUInstanceDescriptor const *);
size_t wgpuInstanceEnumerateAdapters(WGPUInstance, void const *options, WGPUAdapter *);
void wgpuAdapterGetInfo(WGPUAdapter, WGPUAdapterInfo *);
void wgpuAdapterInfoFreeMembers(WGPUAdapterInfo);
WGPUBool wgpuAdapterGetLimits(WGPUAdapter, WGPUSupportedLimits *);
WGPUBool wgpuAdapterHasFeature(WGPUAdapter, uint32_t feature);
void wgpuAdapterRequestDevice(WGPUAdapter, WGPUDeviceDescriptor const *, WGPUAdapterRequestDeviceCallback, void *userdata);
void wgpuAdapterRelease(WGPUAdapter);

WGPUQueue wgpuDeviceGetQueue(WGPUDevice);
WGPUBool wgpuDeviceGetLimits(WGPUDevice, WGPUSupportedLimits *);
WGPUBool wgpuDevicePoll(WGPUDevice, WGPUBool wait, void const *submission);
WGPUBuffer wgpuDeviceCreateBuffer(WGPUDevice, WGPUBufferDescriptor const *);
WGPUBindGroupLayout wgpuDeviceCreateBindGroupLayout(WGPUDevice, WGPUBindGroupLayoutDescriptor const *);
WGPUBindGroup wgpuDeviceCreateBindGroup(WGPUDevice, WGPUBindGroupDescriptor const *);
WGPUPipelineLayout wgpuDeviceCreatePipelineLayout(WGPUDevice, WGPUPipelineLayoutDescriptor const *);
WGPUShaderModule wgpuDeviceCreateShaderModule(WGPUDevice, WGPUShaderModuleDescriptor const *);
WGPUComputePipeline wgpuDeviceCreateComputePipeline(WGPUDevice, WGPUComputePipelineDescriptor const *);
WGPUCommandEncoder wgpuDeviceCreateCommandEncoder(WGPUDevice, WGPUCommandEncoderDescriptor const *);
WGPUQuerySet wgpuDeviceCreateQuerySet(WGPUDevice, WGPUQuerySetDescriptor const *);
WGPUTexture wgpuDeviceCreateTexture(WGPUDevice, WGPUTextureDescriptor const *);
void wgpuDeviceRelease(WGPUDevice);

void wgpuBufferMapAsync(WGPUBuffer, WGPUFlags mode, size_t offset, size_t size, WGPUBufferMapAsyncCallback, void *userdata);
void const *wgpuBufferGetConstMappedRange(WGPUBuffer, size_t offset, size_t size);
void wgpuBufferUnmap(WGPUBuffer);
void wgpuBufferDestroy(WGPUBuffer);
void wgpuBufferRelease(WGPUBuffer);
WGPUTextureView wgpuTextureCreateView(WGPUTexture, void const *descriptor);
void wgpuTextureViewRelease(WGPUTextureView);
void wgpuTextureDestroy(WGPUTexture);
void wgpuTextureRelease(WGPUTexture);
void wgpuBindGroupLayoutRelease(WGPUBindGroupLayout);
void wgpuBindGroupRelease(WGPUBindGroup);
void wgpuPipelineLayoutRelease(WGPUPipelineLayout);
void wgpuShaderModuleRelease(WGPUShaderModule);
void wgpuComputePipelineRelease(WGPUComputePipeline);
void wgpuQuerySetRelease(WGPUQuerySet);

void wgpuCommandEncoderClearBuffer(WGPUCommandEncoder, WGPUBuffer, uint64_t offset, uint64_t size);
void wgpuCommandEncoderCopyBufferToBuffer(WGPUCommandEncoder, WGPUBuffer src, uint64_t srcOffset, WGPUBuffer dst, uint64_t dstOffset, uint64_t size);
void wgpuCommandEncoderCopyBufferToTexture(WGPUCommandEncoder, WGPUImageCopyBuffer const *src, WGPUImageCopyTexture const *dst, WGPUExtent3D const *);
void wgpuCommandEncoderResolveQuerySet(WGPUCommandEncoder, WGPUQuerySet, uint32_t first, uint32_t count, WGPUBuffer, uint64_t offset);
WGPUComputePassEncoder wgpuCommandEncoderBeginComputePass(WGPUCommandEncoder, WGPUComputePassDescriptor const *);
WGPUCommandBuffer wgpuCommandEncoderFinish(WGPUCommandEncoder, WGPUCommandBufferDescriptor const *);
void wgpuCommandEncoderRelease(WGPUCommandEncoder);
void wgpuCommandBufferRelease(WGPUCommandBuffer);
void wgpuComputePassEncoderSetPipeline(WGPUComputePassEncoder, WGPUComputePipeline);
void wgpuComputePassEncoderSetBindGroup(WGPUComputePassEncoder, uint32_t index, WGPUBindGroup, size_t offsets, uint32_t const *);
void wgpuComputePassEncoderDispatchWorkgroups(WGPUComputePassEncoder, uint32_t x, uint32_t y, uint32_t z);
void wgpuComputePassEncoderEnd(WGPUComputePassEncoder);
void wgpuComputePassEncoderRelease(WGPUComputePassEncoder);

void wgpuQueueWriteBuffer(WGPUQueue, WGPUBuffer, uint64_t offset, void const *data, size_t size);
uint64_t wgpuQueueSubmitForIndex(WGPUQueue, size_t count, WGPUCommandBuffer const *);
void wgpuQueueOnSubmittedWorkDone(WGPUQueue, WGPUQueueOnSubmittedWorkDoneCallback, void *userdata);
void wgpuQueueRelease(WGPUQueue);

void wgpuSetLogCallback(WGPULogCallback, void *userdata);
void wgpuSetLogLevel(uint32_t level);

#endif
