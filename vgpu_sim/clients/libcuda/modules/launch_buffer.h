/* The memory in which kernels submit launches, copies and fills. Their functions are PTX that the
 * compiler adds (compiler/device_runtime.ptx, which defines the buffer's layout); the worker runs
 * what they submit. */
#ifndef TSR_LAUNCH_BUFFER_H
#define TSR_LAUNCH_BUFFER_H

#include "base/objects.h"

/* Write the buffer's address to a variable of a module that was just loaded. The first such module
 * makes the context allocate the buffer. */
CUresult tsr_launch_buffer_tell(struct tsr_context *context, uint64_t variable);

#endif
