// A shim for Apple's GPUs that Mesa 26's Honeykrisp opens: the ioctls of Linux's asahi_drm.h, which hand out handles and do nothing else. (Mesa
// 25.0's own shim has those of an older header.) AGX_CHIP=14 is an M2, otherwise an M1.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "drm-shim/drm_shim.h"

// From include/uapi/drm/asahi_drm.h, as much as is read or written here.
enum { GET_PARAMS, GET_TIME, VM_CREATE, VM_DESTROY, VM_BIND, GEM_CREATE, GEM_MMAP_OFFSET, GEM_BIND_OBJECT, QUEUE_CREATE, QUEUE_DESTROY, SUBMIT };
struct get_params { uint32_t param_group, pad; uint64_t pointer, size; };
struct vm_create { uint64_t kernel_start, kernel_end; uint32_t vm_id, pad; };
struct gem_create { uint64_t size; uint32_t flags, vm_id, handle, pad; };
struct gem_mmap_offset { uint32_t handle, flags; uint64_t offset; };
struct gem_bind_object { uint32_t op, flags, handle, vm_id; uint64_t offset, range; uint32_t object_handle, pad; };
struct queue_create { uint32_t flags, vm_id, priority, queue_id; uint64_t usc_exec_base; };
static struct params_global {
    uint64_t features;
    uint32_t gpu_generation, gpu_variant, gpu_revision, chip_id, num_dies, num_clusters_total, num_cores_per_cluster, max_frequency_khz;
    uint64_t core_masks[64], vm_start, vm_end, vm_kernel_min_size;
    uint32_t max_commands_per_submission, max_attachments;
    uint64_t command_timestamp_frequency_hz;
} params = {
    .gpu_generation = 13, .gpu_variant = 'G', .chip_id = 0x8103, .num_dies = 1, .num_clusters_total = 1, .num_cores_per_cluster = 8,
    .max_frequency_khz = 1278000, .core_masks = {0xff}, .vm_start = 0x4000, .vm_end = 1ull << 39, .vm_kernel_min_size = 1 << 29,
    .max_commands_per_submission = 64, .max_attachments = 16, .command_timestamp_frequency_hz = 24000000,
};

bool drm_shim_driver_prefers_first_render_node = true;
static uint32_t next_id = 1;

static int noop(int fd, unsigned long request, void *arg) { return 0; }

static int get_params(int fd, unsigned long request, void *arg) {
    struct get_params *p = arg;
    if (p->param_group) return -1;
    if (p->size > sizeof params) p->size = sizeof params;
    memcpy((void *)(uintptr_t)p->pointer, &params, p->size);
    return 0;
}

static int vm_create(int fd, unsigned long request, void *arg) { return ((struct vm_create *)arg)->vm_id = next_id++, 0; }
static int queue_create(int fd, unsigned long request, void *arg) { return ((struct queue_create *)arg)->queue_id = next_id++, 0; }
static int gem_bind_object(int fd, unsigned long request, void *arg) { return ((struct gem_bind_object *)arg)->object_handle = next_id++, 0; }

static int gem_create(int fd, unsigned long request, void *arg) {
    struct gem_create *create = arg;
    struct shim_bo *bo = calloc(1, sizeof *bo);
    if (!bo || drm_shim_bo_init(bo, create->size)) return -1;
    create->handle = drm_shim_bo_get_handle(drm_shim_fd_lookup(fd), bo);
    drm_shim_bo_put(bo);
    return 0;
}

static int gem_mmap_offset(int fd, unsigned long request, void *arg) {
    struct gem_mmap_offset *map = arg;
    struct shim_bo *bo = drm_shim_bo_lookup(drm_shim_fd_lookup(fd), map->handle);
    if (!bo) return -1;
    map->offset = drm_shim_bo_get_mmap_offset(drm_shim_fd_lookup(fd), bo);
    drm_shim_bo_put(bo);
    return 0;
}

static ioctl_fn_t ioctls[] = {
    [GET_PARAMS] = get_params, [GET_TIME] = noop, [VM_CREATE] = vm_create, [VM_DESTROY] = noop, [VM_BIND] = noop, [GEM_CREATE] = gem_create,
    [GEM_MMAP_OFFSET] = gem_mmap_offset, [GEM_BIND_OBJECT] = gem_bind_object, [QUEUE_CREATE] = queue_create, [QUEUE_DESTROY] = noop, [SUBMIT] = noop,
};

void drm_shim_driver_init(void) {
    const char *chip = getenv("AGX_CHIP");
    if (chip && atoi(chip) == 14) params.gpu_generation = 14, params.chip_id = 0x8112;
    shim_device.bus_type = DRM_BUS_PLATFORM;
    shim_device.driver_name = "asahi";
    shim_device.driver_ioctls = ioctls;
    shim_device.driver_ioctl_count = sizeof ioctls / sizeof *ioctls;
    drm_shim_override_file("DRIVER=asahi\nOF_FULLNAME=/soc/agx\nOF_COMPATIBLE_0=apple,gpu-g13g\nOF_COMPATIBLE_N=1\n", "/sys/dev/char/%d:%d/device/uevent",
                           DRM_MAJOR, render_node_minor);
}
