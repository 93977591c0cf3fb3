/* Whether a context is alive, and the error that ended it. */
#ifndef TSR_HEALTH_H
#define TSR_HEALTH_H

#include "base/objects.h"

/* Return the error that ended the context, or CUDA_SUCCESS. */
CUresult tsr_context_error(struct tsr_context *context);

/* Record that the socket is closed, and return the error that the context reports from now on. */
CUresult tsr_context_lose(struct tsr_context *context);

/* Poll the socket; true when the worker has ended. */
bool tsr_context_hung_up(struct tsr_context *context);

#endif
