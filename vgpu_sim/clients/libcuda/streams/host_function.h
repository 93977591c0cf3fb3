/* Host functions in the order of a ring. */
#ifndef TSR_HOST_FUNCTION_H
#define TSR_HOST_FUNCTION_H

#include "base/objects.h"

CUresult tsr_host_function_enqueue(struct tsr_context *context, uint32_t stream, CUhostFn function,
                                   void *data);

#endif
