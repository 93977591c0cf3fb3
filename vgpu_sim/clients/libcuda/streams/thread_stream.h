/* The per-thread default streams: one for each thread and context. */
#ifndef TSR_THREAD_STREAM_H
#define TSR_THREAD_STREAM_H

#include "base/objects.h"

/* Return the calling thread's default stream in a context; it is created at the first call, and
 * released when the thread ends. */
CUresult tsr_thread_stream(struct tsr_context *context, struct tsr_stream **stream);

#endif
