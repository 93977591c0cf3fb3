/* Copies of bytes. */
#ifndef TSR_COPY_H
#define TSR_COPY_H

#include <stdbool.h>

#include "runtime_types.h"

/* How the calling function orders a copy: waiting for it in the legacy default stream, waiting in
 * the thread's default stream, or not waiting. */
enum tsr_order { TSR_WAIT, TSR_WAIT_PER_THREAD, TSR_NO_WAIT };

cudaError_t tsr_copy(void *dst, const void *src, size_t count, int kind, enum tsr_order order,
                     cudaStream_t stream);

/* Wait as a function of this order must after it has queued work in `stream`. */
cudaError_t tsr_settle(cudaError_t queued, enum tsr_order order);

#endif
