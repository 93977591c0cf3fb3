/* Streams as objects: each has a ring of its context. */
#ifndef TSR_STREAM_RING_H
#define TSR_STREAM_RING_H

#include "base/objects.h"

/* Reserve a ring of the context; OUT_OF_MEMORY: all are in use. Requests of a blocking ring are
 * ordered with the legacy stream's. */
CUresult tsr_stream_ring_open(struct tsr_context *context, bool blocking, uint32_t *index);

/* Return a ring; its queued requests still run. */
void tsr_stream_ring_close(struct tsr_context *context, uint32_t index);

/* Set a ring's priority, clamped to the range of cuCtxGetStreamPriorityRange. Of the streams whose
 * next request can start, the worker starts those of higher priority first. */
void tsr_stream_set_priority(struct tsr_context *context, uint32_t stream, int priority);

/* Create a stream and return its handle. */
CUresult tsr_stream_new(struct tsr_context *context, unsigned int flags, uint64_t *handle);

/* Destroy a stream; INVALID_HANDLE: there is none. */
CUresult tsr_stream_drop(uint64_t handle);

#endif
