/* The memory in which kernels submit launches, copies, fills and graphs. Their functions are PTX that the
 * compiler adds (compiler/device_runtime.ptx, which defines the buffer's layout); the worker runs
 * what they submit. */
#ifndef TSR_LAUNCH_BUFFER_H
#define TSR_LAUNCH_BUFFER_H

#include "base/objects.h"

/* Write the buffer's address to a variable of a module that was just loaded. The first such module
 * makes the context allocate the buffer. */
CUresult tsr_launch_buffer_tell(struct tsr_context *context, uint64_t variable);

/* Let kernels of an executable graph launch graphs: its handle, and its list of requests. Unless it is
 * `of_host`, kernels of the context can launch it, too. At most 256 graphs can be so at a time. `place`
 * gets the place of its entry in the buffer, which is not 0. */
CUresult tsr_launch_buffer_publish(struct tsr_context *context, uint64_t graph, bool of_host,
                                   uint64_t list, uint32_t slots, uint32_t *place);
/* Whether another graph can be published only once work of graphs that are gone has ended. */
bool tsr_launch_buffer_must_wait(struct tsr_context *context);
/* Let kernels launch a graph no more. They still know it as their own, until its entry is forgotten. */
void tsr_launch_buffer_retire(struct tsr_context *context, uint32_t place);
void tsr_launch_buffer_forget(struct tsr_context *context, uint32_t place);

#endif
