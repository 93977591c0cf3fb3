/* Functions whose result is one number, on the host or on the device. */
#ifndef TSR_CUBLAS_REDUCE_H
#define TSR_CUBLAS_REDUCE_H

#include "handle.h"

/* Puts a computation into the handle's stream, whose result goes to this address. */
typedef cublasStatus_t tsr_reduction(struct tsr_blas *blas, const void *what, int type, uint64_t result);

/* Compute a number of this type. As the handle's pointer mode says, the result is on the device,
 * or on the host, which then waits for it. */
cublasStatus_t tsr_blas_reduce(struct tsr_blas *blas, tsr_reduction *put, const void *what, int type,
                               void *result);

#endif
