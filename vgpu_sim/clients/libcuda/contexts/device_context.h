/* The context to which memory belongs that a program creates for a device, not for a context. */
#ifndef TSR_DEVICE_CONTEXT_H
#define TSR_DEVICE_CONTEXT_H

#include "base/objects.h"

/* Return in `context` the calling thread's context, or NULL if it has none or if another thread has
 * destroyed it. A sticky error of the context is returned. */
CUresult tsr_thread_context(struct tsr_context **context);

/* Return in `context` the calling thread's context if it is on the device, else the device's primary
 * context if it is open, else the newest context on the device, else the primary context, which is
 * opened. A sticky error of the thread's context is returned. */
CUresult tsr_device_context(struct tsr_device *device, struct tsr_context **context);

#endif
