/* Green contexts: parts of a primary context (contexts/resources.h has what they may use). */
#ifndef TSR_GREEN_H
#define TSR_GREEN_H

#include "base/objects.h"

#define TSR_GREEN_OF(handle) TSR_FIND(tsr_green, TSR_GREEN, handle)

/* Make a stream of a green context. */
CUresult tsr_green_stream_new(struct tsr_green *green, unsigned int flags, int priority,
                              uint64_t *handle);

#endif
