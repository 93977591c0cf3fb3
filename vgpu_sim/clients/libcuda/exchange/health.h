/* Whether a context still lives, and what it died of. */
#ifndef TSR_HEALTH_H
#define TSR_HEALTH_H

#include "base/objects.h"

/* The error that the context died of, or CUDA_SUCCESS. */
CUresult tsr_context_error(struct tsr_context *context);

/* Notes that the socket is closed and returns the error that the context reports from now on. */
CUresult tsr_context_lose(struct tsr_context *context);

/* Looks at the socket: true when the worker is gone. */
bool tsr_context_hung_up(struct tsr_context *context);

#endif
