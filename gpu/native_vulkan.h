// The part of Vulkan that native_matrix.c uses, so that no headers of Vulkan are needed to build. TestVulkanABI holds it to those that are installed;
// what is younger than they are is marked.
#ifndef GPUTRAIN_NATIVE_VULKAN_H
#define GPUTRAIN_NATIVE_VULKAN_H

#include <stddef.h>
#include <stdint.h>

typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
typedef struct VkDevice_T *VkDevice;
typedef uint64_t VkShaderModule, VkPipeline, VkPipelineLayout, VkPipelineCache;
typedef int32_t VkResult;
typedef uint32_t VkBool32;
typedef void VkAllocationCallbacks;
typedef void (*PFN_vkVoidFunction)(void);

enum {
    VK_SUCCESS = 0,
    VK_API_VERSION_1_1 = 1 << 22 | 1 << 12,
    VK_API_VERSION_1_3 = 1 << 22 | 3 << 12,
    VK_SHADER_STAGE_COMPUTE_BIT = 0x20,
    VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT = 2,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2 = 1000059000,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 = 1000059001,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES = 1000082000,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV = 1000154001,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD = 1000185000,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES = 1000211000,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES = 1000225000,
    VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO = 1000225001,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES = 1000225002,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD = 1000227000,
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM = 1000497001,
};

typedef struct VkBaseOutStructure {
    int32_t sType;
    struct VkBaseOutStructure *pNext;
} VkBaseOutStructure;

typedef struct VkExtensionProperties {
    char extensionName[256];
    uint32_t specVersion;
} VkExtensionProperties;

typedef struct VkPhysicalDeviceProperties {
    uint32_t apiVersion, driverVersion, vendorID, deviceID;
    int32_t deviceType;
    char deviceName[256];
    uint8_t pipelineCacheUUID[16];
    uint64_t limits[63];
    VkBool32 sparseProperties[5];
} VkPhysicalDeviceProperties;

enum { GT_TIMESTAMP_PERIOD = 424 }; // where in limits the float timestampPeriod lies

typedef struct VkPhysicalDeviceProperties2 {
    int32_t sType;
    void *pNext;
    VkPhysicalDeviceProperties properties;
} VkPhysicalDeviceProperties2;

typedef struct VkPhysicalDeviceFeatures2 {
    int32_t sType;
    void *pNext;
    VkBool32 features[55];
} VkPhysicalDeviceFeatures2;

typedef struct VkPhysicalDeviceShaderFloat16Int8Features {
    int32_t sType;
    void *pNext;
    VkBool32 shaderFloat16, shaderInt8;
} VkPhysicalDeviceShaderFloat16Int8Features;

typedef struct VkPhysicalDeviceVulkanMemoryModelFeatures {
    int32_t sType;
    void *pNext;
    VkBool32 vulkanMemoryModel, vulkanMemoryModelDeviceScope, vulkanMemoryModelAvailabilityVisibilityChains;
} VkPhysicalDeviceVulkanMemoryModelFeatures;

typedef struct VkPhysicalDeviceSubgroupSizeControlFeatures {
    int32_t sType;
    void *pNext;
    VkBool32 subgroupSizeControl, computeFullSubgroups;
} VkPhysicalDeviceSubgroupSizeControlFeatures;

typedef struct VkPhysicalDeviceSubgroupSizeControlProperties {
    int32_t sType;
    void *pNext;
    uint32_t minSubgroupSize, maxSubgroupSize, maxComputeWorkgroupSubgroups, requiredSubgroupSizeStages;
} VkPhysicalDeviceSubgroupSizeControlProperties;

typedef struct VkPhysicalDeviceShaderSMBuiltinsPropertiesNV {
    int32_t sType;
    void *pNext;
    uint32_t shaderSMCount, shaderWarpsPerSM;
} VkPhysicalDeviceShaderSMBuiltinsPropertiesNV;

typedef struct VkPhysicalDeviceShaderCorePropertiesAMD {
    int32_t sType;
    void *pNext;
    uint32_t shaderEngineCount, shaderArraysPerEngineCount, computeUnitsPerShaderArray, simdPerComputeUnit, wavefrontsPerSimd, wavefrontSize;
    uint32_t sgprsPerSimd, minSgprAllocation, maxSgprAllocation, sgprAllocationGranularity;
    uint32_t vgprsPerSimd, minVgprAllocation, maxVgprAllocation, vgprAllocationGranularity;
} VkPhysicalDeviceShaderCorePropertiesAMD;

typedef struct VkPhysicalDeviceShaderCoreProperties2AMD {
    int32_t sType;
    void *pNext;
    uint32_t shaderCoreFeatures, activeComputeUnitCount;
} VkPhysicalDeviceShaderCoreProperties2AMD;

typedef struct VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM {
    int32_t sType;
    void *pNext;
    uint64_t shaderCoreMask;
    uint32_t shaderCoreCount, shaderWarpsPerCore;
} VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM;

typedef struct VkDeviceCreateInfo {
    int32_t sType;
    void const *pNext;
    uint32_t flags, queueCreateInfoCount;
    void const *pQueueCreateInfos;
    uint32_t enabledLayerCount;
    char const *const *ppEnabledLayerNames;
    uint32_t enabledExtensionCount;
    char const *const *ppEnabledExtensionNames;
    void const *pEnabledFeatures;
} VkDeviceCreateInfo;

typedef struct VkShaderModuleCreateInfo {
    int32_t sType;
    void const *pNext;
    uint32_t flags;
    size_t codeSize;
    uint32_t const *pCode;
} VkShaderModuleCreateInfo;

typedef struct VkPipelineShaderStageCreateInfo {
    int32_t sType;
    void const *pNext;
    uint32_t flags, stage;
    VkShaderModule module;
    char const *pName;
    void const *pSpecializationInfo;
} VkPipelineShaderStageCreateInfo;

typedef struct VkPipelineShaderStageRequiredSubgroupSizeCreateInfo {
    int32_t sType;
    void *pNext;
    uint32_t requiredSubgroupSize;
} VkPipelineShaderStageRequiredSubgroupSizeCreateInfo;

typedef struct VkComputePipelineCreateInfo {
    int32_t sType;
    void const *pNext;
    uint32_t flags;
    VkPipelineShaderStageCreateInfo stage;
    VkPipelineLayout layout;
    VkPipeline basePipelineHandle;
    int32_t basePipelineIndex;
} VkComputePipelineCreateInfo;

// Of VK_KHR_cooperative_matrix, published in June 2023.
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
enum {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR = 1000506000,
    VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR = 1000506001,
    VK_COMPONENT_TYPE_FLOAT16_KHR = 0,
    VK_COMPONENT_TYPE_FLOAT32_KHR = 1,
    VK_SCOPE_SUBGROUP_KHR = 3,
};

typedef struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
    int32_t sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;

typedef struct VkCooperativeMatrixPropertiesKHR {
    int32_t sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    int32_t AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    int32_t scope;
} VkCooperativeMatrixPropertiesKHR;

typedef PFN_vkVoidFunction (*PFN_vkGetInstanceProcAddr)(VkInstance, char const *);
typedef PFN_vkVoidFunction (*PFN_vkGetDeviceProcAddr)(VkDevice, char const *);
typedef VkResult (*PFN_vkEnumeratePhysicalDevices)(VkInstance, uint32_t *, VkPhysicalDevice *);
typedef VkResult (*PFN_vkEnumerateDeviceExtensionProperties)(VkPhysicalDevice, char const *, uint32_t *, VkExtensionProperties *);
typedef void (*PFN_vkGetPhysicalDeviceProperties)(VkPhysicalDevice, VkPhysicalDeviceProperties *);
typedef void (*PFN_vkGetPhysicalDeviceProperties2)(VkPhysicalDevice, VkPhysicalDeviceProperties2 *);
typedef void (*PFN_vkGetPhysicalDeviceFeatures2)(VkPhysicalDevice, VkPhysicalDeviceFeatures2 *);
typedef VkResult (*PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(VkPhysicalDevice, uint32_t *, VkCooperativeMatrixPropertiesKHR *);
typedef VkResult (*PFN_vkCreateDevice)(VkPhysicalDevice, VkDeviceCreateInfo const *, VkAllocationCallbacks const *, VkDevice *);
typedef VkResult (*PFN_vkCreateShaderModule)(VkDevice, VkShaderModuleCreateInfo const *, VkAllocationCallbacks const *, VkShaderModule *);
typedef VkResult (*PFN_vkCreateComputePipelines)(VkDevice, VkPipelineCache, uint32_t, VkComputePipelineCreateInfo const *, VkAllocationCallbacks const *, VkPipeline *);

#endif
