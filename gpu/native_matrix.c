//go:build linux && !nomatrix

// A hook between the library and Vulkan, for matrix units, which WebGPU does not have, and for what it does not tell of an adapter. The library, linked statically, finds Vulkan by
// dlsym("vkGetInstanceProcAddr"); the linker's --wrap lets us answer. Three calls are ours, and they do as the driver does but where a call of Go's says
// otherwise on that thread:
//
//   vkCreateDevice            in gt_matrix_open: with VK_KHR_cooperative_matrix and the features that it takes
//   vkCreateShaderModule      in gt_matrix_pipeline: of the SPIR-V that matrix_module.go makes of the library's
//   vkCreateComputePipelines  in gt_matrix_pipeline: with subgroups of the wanted size
//
// The last two are handed out for devices that gt_matrix_open has made. That the library makes one module a pipeline, in the call that asks for it, is counted.
#include "native_matrix.h"
#include "native_vulkan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// gputrain_matrix_module makes SPIR-V with units, which is the caller's; NULL: the library's stays, and where it had to, why.
uint32_t *gputrain_matrix_module(uint32_t *code, size_t words, uint32_t *shape, size_t *out, char *failed, size_t size);

static PFN_vkGetInstanceProcAddr driver_instance; // of the loader
static PFN_vkGetDeviceProcAddr driver_device;
static PFN_vkCreateDevice driver_create_device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of what follows
static VkInstance newest;                               // instances stay: see native_adapter.go
static struct hooked {
    VkDevice device;
    PFN_vkCreateShaderModule create_module;
    PFN_vkCreateComputePipelines create_pipelines;
    struct hooked *next;
} *devices; // of gt_matrix_open

// What the call of Go's that this thread is in wants.
static _Thread_local int wanted, granted;
static _Thread_local uint32_t const *unit;
static _Thread_local uint32_t unit_lanes;
static _Thread_local int rewritten;
static _Thread_local gt_matrix_passed passed;

static struct hooked *find(VkDevice d) {
    pthread_mutex_lock(&lock);
    struct hooked *h = devices;
    while (h && h->device != d) h = h->next;
    pthread_mutex_unlock(&lock);
    return h;
}

static VkResult create_module(VkDevice d, VkShaderModuleCreateInfo const *info, VkAllocationCallbacks const *a, VkShaderModule *m) {
    struct hooked *h = find(d);
    if (!unit) return h->create_module(d, info, a, m);
    VkShaderModuleCreateInfo with = *info;
    size_t words = 0;
    passed.modules++;
    uint32_t *code = gputrain_matrix_module((uint32_t *)info->pCode, info->codeSize / 4, (uint32_t *)unit, &words, passed.failed, sizeof passed.failed);
    if (!code) return h->create_module(d, info, a, m);
    with.pCode = code;
    with.codeSize = 4 * words;
    rewritten = 1;
    VkResult r = h->create_module(d, &with, a, m);
    free(code);
    return r;
}

static VkResult create_pipelines(VkDevice d, VkPipelineCache c, uint32_t n, VkComputePipelineCreateInfo const *info, VkAllocationCallbacks const *a, VkPipeline *p) {
    struct hooked *h = find(d);
    if (!unit) return h->create_pipelines(d, c, n, info, a, p);
    passed.pipelines += (int)n;
    if (n != 1 || !rewritten) return h->create_pipelines(d, c, n, info, a, p);
    VkComputePipelineCreateInfo with = *info;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, (void *)with.stage.pNext, unit_lanes,
    };
    with.stage.pNext = &size;
    with.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    return h->create_pipelines(d, c, 1, &with, a, p);
}

// The features that units take, as a chain for a query or for a device.
struct features {
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix;
    VkPhysicalDeviceShaderFloat16Int8Features half;
    VkPhysicalDeviceVulkanMemoryModelFeatures model;
    VkPhysicalDeviceSubgroupSizeControlFeatures sizes;
};

static void *chain(struct features *f, void *rest) {
    *f = (struct features){
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, &f->half, 0, 0},
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, &f->model, 0, 0},
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, &f->sizes, 0, 0, 0},
        {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, rest, 0, 0},
    };
    return f;
}

static int lists(VkInstance i, VkPhysicalDevice p, char const *name) {
    PFN_vkEnumerateDeviceExtensionProperties extensions = (void *)driver_instance(i, "vkEnumerateDeviceExtensionProperties");
    uint32_t n = 0;
    if (!extensions || extensions(p, NULL, &n, NULL) != VK_SUCCESS) return 0;
    VkExtensionProperties *e = calloc(n + 1, sizeof *e);
    int found = 0;
    extensions(p, NULL, &n, e);
    for (uint32_t k = 0; k < n; k++) found |= !strcmp(e[k].extensionName, name);
    free(e);
    return found;
}

// The multiprocessors of a physical device: the same thing has a name and an extension with each make. AMD's first tells those of the chip, its second those
// that are on.
static uint32_t multiprocessors(VkInstance i, VkPhysicalDevice p) {
    PFN_vkGetPhysicalDeviceProperties2 properties2 = (void *)driver_instance(i, "vkGetPhysicalDeviceProperties2");
    if (!properties2) return 0;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceShaderCorePropertiesAMD chip = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
    VkPhysicalDeviceShaderCoreProperties2AMD active = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD};
    VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM};
    VkPhysicalDeviceProperties2 two = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    struct { char const *extension; void *its; } const makes[] = {
        {"VK_NV_shader_sm_builtins", &nvidia}, {"VK_AMD_shader_core_properties", &chip}, {"VK_AMD_shader_core_properties2", &active},
        {"VK_ARM_shader_core_builtins", &arm},
    };
    for (size_t k = 0; k < sizeof makes / sizeof *makes; k++) {
        if (!lists(i, p, makes[k].extension)) continue;
        VkBaseOutStructure *its = makes[k].its;
        its->pNext = two.pNext;
        two.pNext = its;
    }
    if (!two.pNext) return 0;
    properties2(p, &two);
    uint32_t all = chip.shaderEngineCount * chip.shaderArraysPerEngineCount * chip.computeUnitsPerShaderArray;
    uint32_t of[] = {nvidia.shaderSMCount, active.activeComputeUnitCount, all, arm.shaderCoreCount};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        if (of[k]) return of[k];
    return 0;
}

// The units of a physical device.
static void describe_matrix(VkInstance i, VkPhysicalDevice p, VkPhysicalDeviceProperties const *properties, gt_matrix *out) {
    if (properties->apiVersion < VK_API_VERSION_1_3 || !lists(i, p, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) return;
    PFN_vkGetPhysicalDeviceFeatures2 features2 = (void *)driver_instance(i, "vkGetPhysicalDeviceFeatures2");
    PFN_vkGetPhysicalDeviceProperties2 properties2 = (void *)driver_instance(i, "vkGetPhysicalDeviceProperties2");
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR shapes = (void *)driver_instance(i, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    if (!features2 || !properties2 || !shapes) return;
    struct features f;
    VkPhysicalDeviceFeatures2 all = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, chain(&f, NULL), {0}};
    features2(p, &all);
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, NULL, 0, 0, 0, 0};
    VkPhysicalDeviceProperties2 two = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes};
    properties2(p, &two);
    if (!f.matrix.cooperativeMatrix || !f.half.shaderFloat16 || !f.model.vulkanMemoryModel || !f.sizes.subgroupSizeControl ||
        !f.sizes.computeFullSubgroups || !(sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT))
        return;
    uint32_t n = 0;
    if (shapes(p, &n, NULL) != VK_SUCCESS) return;
    VkCooperativeMatrixPropertiesKHR *s = calloc(n + 1, sizeof *s);
    for (uint32_t k = 0; k < n; k++) s[k].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    shapes(p, &n, s);
    for (uint32_t k = 0; k < n && out->count < GT_MATRIX_SHAPES; k++) {
        if (s[k].AType != VK_COMPONENT_TYPE_FLOAT16_KHR || s[k].BType != VK_COMPONENT_TYPE_FLOAT16_KHR || s[k].CType != VK_COMPONENT_TYPE_FLOAT32_KHR ||
            s[k].ResultType != VK_COMPONENT_TYPE_FLOAT32_KHR || s[k].scope != VK_SCOPE_SUBGROUP_KHR)
            continue;
        memcpy(out->shapes[out->count++], &s[k].MSize, sizeof *out->shapes);
    }
    free(s);
    out->lanes = sizes.minSubgroupSize;
    out->subgroups = sizes.maxComputeWorkgroupSubgroups;
}

uint32_t gt_vulkan_describe(char const *name, gt_vulkan *out, uint32_t room) {
    memset(out, 0, room * sizeof *out);
    pthread_mutex_lock(&lock);
    VkInstance i = newest;
    pthread_mutex_unlock(&lock);
    PFN_vkEnumeratePhysicalDevices enumerate = i ? (void *)driver_instance(i, "vkEnumeratePhysicalDevices") : NULL;
    PFN_vkGetPhysicalDeviceProperties properties = i ? (void *)driver_instance(i, "vkGetPhysicalDeviceProperties") : NULL;
    uint32_t n = 0;
    if (!enumerate || !properties || enumerate(i, &n, NULL) != VK_SUCCESS) return 0;
    VkPhysicalDevice *p = calloc(n + 1, sizeof *p);
    enumerate(i, &n, p);
    uint32_t found = 0;
    for (uint32_t k = 0; k < n && found < room; k++) {
        VkPhysicalDeviceProperties its;
        properties(p[k], &its);
        if (strcmp(its.deviceName, name)) continue;
        gt_vulkan *v = &out[found++];
        memcpy(&v->tick, (char *)its.limits + GT_TIMESTAMP_PERIOD, sizeof v->tick);
        if (its.apiVersion >= VK_API_VERSION_1_1) v->multiprocessors = multiprocessors(i, p[k]);
        describe_matrix(i, p[k], &its, &v->matrix);
    }
    free(p);
    return found;
}

static VkBaseOutStructure *in_chain(void const *of, int32_t type) {
    VkBaseOutStructure *s = (VkBaseOutStructure *)of;
    while (s && s->sType != type) s = s->pNext;
    return s;
}

// Makes a device with units, or returns what says that it cannot: then it is made without.
static VkResult create_with(VkPhysicalDevice p, VkDeviceCreateInfo const *info, VkAllocationCallbacks const *a, VkDevice *d) {
    struct features f;
    VkDeviceCreateInfo with = *info;
    with.pNext = chain(&f, (void *)info->pNext);
    for (VkBaseOutStructure *own = (void *)&f; (void const *)own != info->pNext; own = own->pNext)
        if (in_chain(info->pNext, own->sType)) return -1; // the library's own wish for it may be another
    f.matrix.cooperativeMatrix = f.half.shaderFloat16 = f.model.vulkanMemoryModel = f.sizes.subgroupSizeControl = f.sizes.computeFullSubgroups = 1;
    char const **names = calloc(info->enabledExtensionCount + 1, sizeof *names);
    memcpy(names, info->ppEnabledExtensionNames, info->enabledExtensionCount * sizeof *names);
    names[with.enabledExtensionCount++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    with.ppEnabledExtensionNames = names;
    VkResult r = driver_create_device(p, &with, a, d);
    free(names);
    return r;
}

static VkResult create_device(VkPhysicalDevice p, VkDeviceCreateInfo const *info, VkAllocationCallbacks const *a, VkDevice *d) {
    if (wanted) granted = create_with(p, info, a, d) == VK_SUCCESS;
    VkResult r = granted ? VK_SUCCESS : driver_create_device(p, info, a, d);
    if (r != VK_SUCCESS) return r;
    pthread_mutex_lock(&lock);
    for (struct hooked *h = devices; h; h = h->next)
        if (h->device == *d) h->device = NULL; // of a device that is gone, whose place in memory this one has
    if (wanted) {
        struct hooked *h = calloc(1, sizeof *h);
        h->device = *d;
        h->create_module = (void *)driver_device(*d, "vkCreateShaderModule");
        h->create_pipelines = (void *)driver_device(*d, "vkCreateComputePipelines");
        h->next = devices;
        devices = h;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

static PFN_vkVoidFunction device_function(VkDevice d, char const *name) {
    if (find(d)) {
        if (!strcmp(name, "vkCreateShaderModule")) return (void *)create_module;
        if (!strcmp(name, "vkCreateComputePipelines")) return (void *)create_pipelines;
    }
    return driver_device(d, name);
}

static PFN_vkVoidFunction instance_function(VkInstance i, char const *name) {
    PFN_vkVoidFunction f = driver_instance(i, name);
    if (!f || !strcmp(name, "vkGetInstanceProcAddr")) return f ? (void *)instance_function : f;
    if (!strcmp(name, "vkGetDeviceProcAddr")) return driver_device = (void *)f, (void *)device_function;
    if (!strcmp(name, "vkCreateDevice")) {
        pthread_mutex_lock(&lock);
        newest = i;
        pthread_mutex_unlock(&lock);
        return driver_create_device = (void *)f, (void *)create_device;
    }
    return f;
}

void *__real_dlsym(void *, char const *);

void *__wrap_dlsym(void *library, char const *name) {
    void *f = __real_dlsym(library, name);
    if (!f || strcmp(name, "vkGetInstanceProcAddr")) return f;
    driver_instance = f;
    return (void *)instance_function;
}

gt_device *gt_matrix_open(WGPUAdapter adapter, char const *label, int timestamps, int texels, int alone, gt_error *error, int *out) {
    wanted = 1;
    granted = 0;
    gt_device *d = gt_open(adapter, label, timestamps, texels, alone, error);
    *out = granted;
    wanted = granted = 0;
    return d;
}

int gt_matrix_pipeline(gt_device *d, char const *label, char const *wgsl, size_t n, uint32_t const *types, uint32_t const *shape, uint32_t lanes,
    gt_pipeline *out, gt_matrix_passed *by, gt_error *error) {
    unit = shape;
    unit_lanes = lanes;
    rewritten = 0;
    memset(&passed, 0, sizeof passed);
    int made = gt_pipeline_make(d, label, wgsl, n, types, out, error);
    *by = passed;
    unit = NULL;
    return made;
}
