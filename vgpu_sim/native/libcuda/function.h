/* Kernels, as functions of a context's module and as a library's kernels. */
#ifndef TSR_FUNCTION_H
#define TSR_FUNCTION_H

#include "objects.h"

/* The handle of the function that `handle` (a function or a kernel) means in the context; a
 * library is loaded into the context where need be. */
CUresult tsr_function_resolve(struct tsr_context *context, uint64_t handle, uint64_t *function);

/* The same for a kernel; under the module lock. */
CUresult tsr_kernel_resolve(struct tsr_context *context, struct tsr_kernel *kernel,
                            uint64_t *function);

#endif
