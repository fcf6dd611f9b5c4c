// Shared by the C files of this package; Go does not see it.
#ifndef GPUTRAIN_NATIVE_DEVICE_H
#define GPUTRAIN_NATIVE_DEVICE_H

#include <stdatomic.h>

#include "native.h"

struct gt_device {
    WGPUDevice device;
    WGPUQueue queue;
    // OpenGL has one context a device and panics when a thread waits for it longer than a second: one call at a time.
    int exclusive;
    atomic_flag busy;

    atomic_int lost, closed;
    atomic_flag guard; // of what follows
    int pending;
    gt_error pending_error;
    char lost_message[512];
};

void gt_enter(gt_device *, gt_error *);
void gt_leave(gt_device *);
int gt_collecting(void); // whether this thread is in a call that returns its error
void gt_on_done(uint32_t status, void *fence); // the callback of maps and submits

#endif
