/* Streams: handles for ring indices. */
#ifndef TSR_STREAM_H
#define TSR_STREAM_H

#include "base/objects.h"

/* Return the ring of a stream handle in the context. NULL is the default stream: the legacy one,
 * or the thread's own in calls of the variants for per-thread default streams. */
CUresult tsr_stream_index(struct tsr_context *context, CUstream handle, uint32_t *index);

/* Find the context and ring of a stream, whichever context is current; default streams belong
 * to the current context. Returns an error if the context has failed. */
CUresult tsr_stream_locate(CUstream handle, struct tsr_context **context, uint32_t *index);

#endif
