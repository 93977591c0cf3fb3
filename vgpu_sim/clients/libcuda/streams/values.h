/* Operations on values in memory, in the order of a stream. */
#ifndef TSR_VALUES_H
#define TSR_VALUES_H

#include "base/objects.h"

/* Check `count` operations, without enqueuing them. */
CUresult tsr_values_check(struct tsr_context *context, const CUstreamBatchMemOpParams *operations,
                          unsigned int count);

/* Enqueue operations that have been checked. */
CUresult tsr_values_enqueue(struct tsr_context *context, uint32_t stream,
                            const CUstreamBatchMemOpParams *operations, unsigned int count);

#endif
