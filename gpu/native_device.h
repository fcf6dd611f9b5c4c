// Shared by the C files of this package; Go does not see it.
#ifndef GPUTRAIN_NATIVE_DEVICE_H
#define GPUTRAIN_NATIVE_DEVICE_H

#include <stdatomic.h>

#include "native.h"

struct gt_device {
    WGPUDevice device;
    WGPUQueue queue;
    // Who is in a call: -1 one thread alone, n threads that make pipelines. The library takes its own locks in different
    // orders in submits, polls and releases, and deadlocks when threads do these at once on one device; OpenGL, with its
    // one context, panics even when a thread waits for it longer than a second.
    atomic_int busy;
    int alone; // pipelines too are made by one thread at a time

    atomic_int lost, closed;
    atomic_flag guard; // of what follows
    int pending;
    gt_error pending_error;
    char lost_message[512];
};

void gt_enter(gt_device *, gt_error *);
void gt_enter_shared(gt_device *, gt_error *); // for making pipelines
void gt_leave(gt_device *);
int gt_collecting(void); // whether this thread is in a call that returns its error
void gt_copy(char *dst, size_t size, char const *src); // as much as fits
void gt_on_error(uint32_t type, char const *message, void *device);
void gt_on_lost(uint32_t reason, char const *message, void *device);
void gt_on_done(uint32_t status, void *fence); // the callback of maps and submits

#endif
