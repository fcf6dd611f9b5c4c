// A Vulkan layer that makes a compiler of one of Mesa's drivers without its card. It writes what the driver says of each compute pipeline, its
// statistics and its assembly, to $ISA_OUT.stat and .asm.
//
// RADV lists a null device where RADV_FORCE_FAMILY is set, but no program can open it as it is. The layer adds what is missing: heaps and types of
// memory, semaphores that count, and command buffers, which here record nothing. A submit is done at once, as nothing runs. The other drivers run on
// a shim, a stand-in for their kernel driver, which has memory of its own.
//
// There is one instance and one device in a process, and pipelines are made one after the other.
#define VK_NO_PROTOTYPES
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

// What the layer calls of the driver. Each is looked up when instance and device are made: later a look-up leads back here.
static struct {
    PFN_vkGetInstanceProcAddr instance;
    PFN_vkGetPhysicalDeviceMemoryProperties memory_properties;
    PFN_vkGetPhysicalDeviceMemoryProperties2 memory_properties2;

    PFN_vkGetDeviceProcAddr device;
    PFN_vkGetBufferMemoryRequirements buffer_requirements;
    PFN_vkCreateSemaphore create_semaphore;
    PFN_vkCreateComputePipelines create_pipelines;
    PFN_vkGetPipelineExecutablePropertiesKHR executables;
    PFN_vkGetPipelineExecutableStatisticsKHR statistics;
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR representations;
} driver;

static VkInstance instance;

static void *find_link(const void *chain, VkStructureType type) {
    // The links of instance and device have the same head; function comes first behind it.
    for (const VkLayerInstanceCreateInfo *i = chain; i; i = i->pNext)
        if (i->sType == type && i->function == VK_LAYER_LINK_INFO) return (void *)i;
    return NULL;
}

// Memory.

// Only a null device has no memory of its own; those of a shim have.

static const uint32_t memory_types = 3;
static int adds_memory;

static void add_memory(VkPhysicalDeviceMemoryProperties *p) {
    if (p->memoryHeapCount) return;
    adds_memory = 1;
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    p->memoryHeapCount = 2;
    p->memoryHeaps[0] = (VkMemoryHeap){16ull << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    p->memoryHeaps[1] = (VkMemoryHeap){16ull << 30, 0};
    p->memoryTypeCount = memory_types;
    p->memoryTypes[0] = (VkMemoryType){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
    p->memoryTypes[1] = (VkMemoryType){host, 1};
    p->memoryTypes[2] = (VkMemoryType){host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1};
}

static VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties *p) {
    driver.memory_properties(d, p);
    add_memory(p);
}

static VKAPI_ATTR void VKAPI_CALL memory_properties2(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties2 *p) {
    driver.memory_properties2(d, p);
    add_memory(&p->memoryProperties);
}

static VKAPI_ATTR void VKAPI_CALL buffer_requirements(VkDevice d, VkBuffer b, VkMemoryRequirements *r) {
    driver.buffer_requirements(d, b, r);
    if (adds_memory) r->memoryTypeBits = (1u << memory_types) - 1;
}

// Semaphores that count, each as the driver's plain one and a number.

static struct counter {
    VkSemaphore semaphore;
    uint64_t value;
    struct counter *next;
} *counters;

static struct counter *counter_of(VkSemaphore s) {
    struct counter *c = counters;
    while (c && c->semaphore != s) c = c->next;
    return c;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_semaphore(VkDevice d, const VkSemaphoreCreateInfo *info, const VkAllocationCallbacks *a, VkSemaphore *s) {
    const VkSemaphoreTypeCreateInfo *type = info->pNext;
    while (type && type->sType != VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO) type = type->pNext;
    if (!type || type->semaphoreType != VK_SEMAPHORE_TYPE_TIMELINE) return driver.create_semaphore(d, info, a, s);
    VkSemaphoreCreateInfo plain = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkResult result = driver.create_semaphore(d, &plain, a, s);
    if (result != VK_SUCCESS) return result;
    struct counter *c = malloc(sizeof *c);
    if (!c) return VK_ERROR_OUT_OF_HOST_MEMORY;
    *c = (struct counter){*s, type->initialValue, counters};
    counters = c;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL counter_value(VkDevice d, VkSemaphore s, uint64_t *value) {
    struct counter *c = counter_of(s);
    if (!c) return VK_ERROR_UNKNOWN;
    *value = c->value;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue q, uint32_t n, const VkSubmitInfo *infos, VkFence f) {
    for (uint32_t i = 0; i < n; i++) {
        const VkTimelineSemaphoreSubmitInfo *t = infos[i].pNext;
        while (t && t->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) t = t->pNext;
        for (uint32_t j = 0; t && j < t->signalSemaphoreValueCount; j++) {
            struct counter *c = counter_of(infos[i].pSignalSemaphores[j]);
            if (c) c->value = t->pSignalSemaphoreValues[j];
        }
    }
    return VK_SUCCESS;
}

// done answers every call that would record or wait; the caller removes the arguments, so one function serves all.
static VKAPI_ATTR VkResult VKAPI_CALL done(void) { return VK_SUCCESS; }

static int records_or_waits(const char *name) {
    static const char *names[] = {
        "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkResetCommandBuffer", "vkResetCommandPool", "vkDeviceWaitIdle",
        "vkWaitSemaphores", "vkWaitSemaphoresKHR", "vkWaitForFences", "vkGetFenceStatus",
    };
    if (!strncmp(name, "vkCmd", 5)) return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}

// Pipelines.

static FILE *output(const char *ending) {
    const char *base = getenv("ISA_OUT");
    char path[4096];
    if (!base || snprintf(path, sizeof path, "%s.%s", base, ending) >= (int)sizeof path) return NULL;
    return fopen(path, "wb");
}

// write_statistics writes a name and a number a line, the width that the executable runs at among them.
static void write_statistics(FILE *f, VkDevice d, const VkPipelineExecutableInfoKHR *info, uint32_t width) {
    uint32_t n = 0;
    driver.statistics(d, info, &n, NULL);
    VkPipelineExecutableStatisticKHR *s = calloc(n, sizeof *s);
    if (!s) return;
    for (uint32_t i = 0; i < n; i++) s[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    driver.statistics(d, info, &n, s);
    fprintf(f, "executable\t%u\nsubgroup size\t%u\n", info->executableIndex, width);
    for (uint32_t i = 0; i < n; i++) switch (s[i].format) {
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: fprintf(f, "%s\t%llu\n", s[i].name, (unsigned long long)s[i].value.u64); break;
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: fprintf(f, "%s\t%lld\n", s[i].name, (long long)s[i].value.i64); break;
        default: break; // estimates, which no limit holds
        }
    free(s);
}

// write_assembly writes every representation under its name, the assembly last.
static void write_assembly(FILE *f, VkDevice d, const VkPipelineExecutableInfoKHR *info) {
    uint32_t n = 0;
    driver.representations(d, info, &n, NULL);
    VkPipelineExecutableInternalRepresentationKHR *r = calloc(n, sizeof *r);
    if (!r) return;
    for (uint32_t i = 0; i < n; i++) r[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    driver.representations(d, info, &n, r); // their sizes
    for (uint32_t i = 0; i < n; i++) r[i].pData = malloc(r[i].dataSize);
    driver.representations(d, info, &n, r);
    for (uint32_t i = 0; i < n; i++) {
        if (r[i].pData) {
            fprintf(f, "\n==== %s\n", r[i].name);
            fwrite(r[i].pData, 1, strnlen(r[i].pData, r[i].dataSize), f);
        }
        free(r[i].pData);
    }
    free(r);
}

// write_pipeline writes what the driver says of a pipeline's executables: of compute pipelines the last one is what runs.
static void write_pipeline(VkDevice d, VkPipeline pipeline) {
    enum { most = 8 };
    VkPipelineExecutablePropertiesKHR properties[most] = {0};
    for (uint32_t i = 0; i < most; i++) properties[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    const VkPipelineInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, NULL, pipeline};
    uint32_t n = most;
    driver.executables(d, &info, &n, properties);
    FILE *statistics = output("stat"), *assembly = output("asm");
    for (uint32_t i = 0; i < n; i++) {
        const VkPipelineExecutableInfoKHR executable = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, NULL, pipeline, i};
        if (statistics) write_statistics(statistics, d, &executable, properties[i].subgroupSize);
        if (assembly) write_assembly(assembly, d, &executable);
    }
    if (statistics) fclose(statistics);
    if (assembly) fclose(assembly);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice d, VkPipelineCache c, uint32_t n, const VkComputePipelineCreateInfo *infos,
                                                       const VkAllocationCallbacks *a, VkPipeline *out) {
    VkComputePipelineCreateInfo *capturing = malloc(n * sizeof *capturing);
    if (!capturing) return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(capturing, infos, n * sizeof *capturing);
    for (uint32_t i = 0; i < n; i++)
        capturing[i].flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    VkResult result = driver.create_pipelines(d, c, n, capturing, a, out);
    free(capturing);
    for (uint32_t i = 0; result == VK_SUCCESS && i < n; i++) write_pipeline(d, out[i]);
    return result;
}

// Instance and device.

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a, VkInstance *i) {
    VkLayerInstanceCreateInfo *link = find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    driver.instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = ((PFN_vkCreateInstance)driver.instance(NULL, "vkCreateInstance"))(info, a, i);
    if (result != VK_SUCCESS) return result;
    instance = *i;
    driver.memory_properties = (void *)driver.instance(*i, "vkGetPhysicalDeviceMemoryProperties");
    driver.memory_properties2 = (void *)driver.instance(*i, "vkGetPhysicalDeviceMemoryProperties2");
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice p, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *a, VkDevice *d) {
    VkLayerDeviceCreateInfo *link = find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    driver.device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    uint32_t n = info->enabledExtensionCount;
    const char **extensions = malloc((n + 1) * sizeof *extensions);
    if (!extensions) return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(extensions, info->ppEnabledExtensionNames, n * sizeof *extensions);
    extensions[n] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, (void *)info->pNext, VK_TRUE,
    };
    VkDeviceCreateInfo x = *info;
    x.pNext = &feature;
    x.enabledExtensionCount = n + 1;
    x.ppEnabledExtensionNames = extensions;
    VkResult result = ((PFN_vkCreateDevice)driver.instance(instance, "vkCreateDevice"))(p, &x, a, d);
    free(extensions);
    if (result != VK_SUCCESS) return result;
    driver.buffer_requirements = (void *)driver.device(*d, "vkGetBufferMemoryRequirements");
    driver.create_semaphore = (void *)driver.device(*d, "vkCreateSemaphore");
    driver.create_pipelines = (void *)driver.device(*d, "vkCreateComputePipelines");
    driver.executables = (void *)driver.device(*d, "vkGetPipelineExecutablePropertiesKHR");
    driver.statistics = (void *)driver.device(*d, "vkGetPipelineExecutableStatisticsKHR");
    driver.representations = (void *)driver.device(*d, "vkGetPipelineExecutableInternalRepresentationsKHR");
    return result;
}

static PFN_vkVoidFunction device_function(VkDevice d, const char *name);
static PFN_vkVoidFunction instance_function(VkInstance i, const char *name);

static PFN_vkVoidFunction ours(const char *name) {
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } all[] = {
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)instance_function},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)device_function},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)memory_properties},
        {"vkGetPhysicalDeviceMemoryProperties2", (PFN_vkVoidFunction)memory_properties2},
        {"vkGetPhysicalDeviceMemoryProperties2KHR", (PFN_vkVoidFunction)memory_properties2},
        {"vkGetBufferMemoryRequirements", (PFN_vkVoidFunction)buffer_requirements},
        {"vkCreateSemaphore", (PFN_vkVoidFunction)create_semaphore},
        {"vkGetSemaphoreCounterValue", (PFN_vkVoidFunction)counter_value},
        {"vkGetSemaphoreCounterValueKHR", (PFN_vkVoidFunction)counter_value},
        {"vkQueueSubmit", (PFN_vkVoidFunction)submit},
        {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) return all[i].function;
    return records_or_waits(name) ? (PFN_vkVoidFunction)done : NULL;
}

static PFN_vkVoidFunction device_function(VkDevice d, const char *name) {
    PFN_vkVoidFunction f = ours(name);
    return f ? f : driver.device(d, name);
}

static PFN_vkVoidFunction instance_function(VkInstance i, const char *name) {
    PFN_vkVoidFunction f = ours(name);
    return f ? f : driver.instance(i, name);
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *v) {
    v->loaderLayerInterfaceVersion = 2;
    v->pfnGetInstanceProcAddr = instance_function;
    v->pfnGetDeviceProcAddr = device_function;
    v->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
