// The log of the library goes to Go (log.go), from whatever thread wrote it.
#include "native.h"

void gputrain_log(uint32_t level, char *message);

static void gt_on_log(uint32_t level, char const *message, void *userdata) {
    (void)userdata;
    gputrain_log(level, (char *)message);
}

void gt_log_init(void) { wgpuSetLogCallback(gt_on_log, NULL); }
void gt_log_level(uint32_t level) { wgpuSetLogLevel(level); }
