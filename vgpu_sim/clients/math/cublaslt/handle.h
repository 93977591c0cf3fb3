/* Handles of cuBLASLt. */
#ifndef TSR_CUBLASLT_HANDLE_H
#define TSR_CUBLASLT_HANDLE_H

#include "cublaslt_types.h"
#include "current.h"

/* Whether this is a handle: of this library, or of cuBLAS, whose handles are valid here too. */
bool tsr_light_is_handle(cublasLtHandle_t handle);

/* Give a thread that has no context that of the handle's device, or of device 0 for one of cuBLAS. */
bool tsr_light_enter(cublasLtHandle_t handle);

#endif
