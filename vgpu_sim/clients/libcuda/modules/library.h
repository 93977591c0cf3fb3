/* The kernels of a library. Each function needs a context that has loaded the library, or the
 * calling thread's context, in which it loads it; CUDA_ERROR_INVALID_CONTEXT: there is neither. */
#ifndef TSR_LIBRARY_H
#define TSR_LIBRARY_H

#include "driver_types.h"

CUresult tsr_library_kernel(CUkernel *kernel, CUlibrary library, const char *name);

/* Only the functions that can run are counted and listed. */
CUresult tsr_library_count(unsigned int *count, CUlibrary library);
CUresult tsr_library_enumerate(CUkernel *kernels, unsigned int room, CUlibrary library);

#endif
