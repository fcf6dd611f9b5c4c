// The log of the library goes to Go (log.go), from whatever thread wrote it.
#include "native_device.h"

void gputrain_log(uint32_t level, char *message);

static void gt_on_log(uint32_t level, char const *message, void *userdata) {
    (void)userdata;
    // What a call of ours returns as an error need not stand in the log too.
    if (level == WGPULogLevel_Error && gt_collecting()) level = WGPULogLevel_Debug;
    gputrain_log(level, (char *)message);
}

void gt_log_init(void) { wgpuSetLogCallback(gt_on_log, NULL); }
void gt_log_level(uint32_t level) { wgpuSetLogLevel(level); }
