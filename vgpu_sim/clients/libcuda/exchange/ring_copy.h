/* Copies between memory of one context, by its worker. */
#ifndef TSR_RING_COPY_H
#define TSR_RING_COPY_H

#include "base/objects.h"

/* Put a copy between memory of the stream's context into its ring. */
CUresult tsr_copy_enqueue(struct tsr_context *context, uint32_t stream, uint64_t destination,
                          uint64_t source, uint64_t bytes);

/* Copy from or to the variables of a module that is being loaded, in the legacy stream, and wait
 * for it; also while streams capture. */
CUresult tsr_segment_copy(struct tsr_context *context, uint64_t destination, uint64_t source,
                          uint64_t bytes);

#endif
