/* Copies from and to the variables of a module, before it is published. */
#ifndef TSR_SEGMENT_COPY_H
#define TSR_SEGMENT_COPY_H

#include "base/objects.h"

/* Have the worker copy between device addresses, in the legacy stream, and wait for it. */
CUresult tsr_segment_copy(struct tsr_context *context, uint64_t destination, uint64_t source,
                          uint64_t bytes);

#endif
