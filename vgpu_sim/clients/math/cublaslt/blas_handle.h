/* Handles of cuBLAS, which programs may pass to cuBLASLt. */
#ifndef TSR_BLAS_HANDLE_H
#define TSR_BLAS_HANDLE_H

#include <stdbool.h>

/* Whether the process has loaded libcublas, and this is a handle of it. */
bool tsr_is_blas_handle(void *handle);

#endif
