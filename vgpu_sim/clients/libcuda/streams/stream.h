/* Streams: handles for ring indices. */
#ifndef TSR_STREAM_H
#define TSR_STREAM_H

#include "base/objects.h"

/* Clamp a priority to the range of cuCtxGetStreamPriorityRange. Priorities are advice: the streams
 * of a context share its slice fairly, whatever their priorities. */
static inline int tsr_priority_clamp(int priority) {
  if (priority > 0) return 0;
  return priority < TSR_GREATEST_PRIORITY ? TSR_GREATEST_PRIORITY : priority;
}

/* Return the ring of a stream handle in the context. NULL is the default stream: the legacy one,
 * or the thread's own in calls of the variants for per-thread default streams. */
CUresult tsr_stream_index(struct tsr_context *context, CUstream handle, uint32_t *index);

/* Find the context and ring of a stream, whichever context is current; default streams belong
 * to the current context. Returns an error if the context has failed. */
CUresult tsr_stream_locate(CUstream handle, struct tsr_context **context, uint32_t *index);

#endif
