/* Arrays of the runtime: their errors and sizes. */
#ifndef TSR_ARRAY_H
#define TSR_ARRAY_H

#include "runtime_types.h"

/* The runtime's error for an array that does not exist is INVALID_VALUE, where the driver's is
 * INVALID_HANDLE. */
static inline cudaError_t tsr_without_handle(int result) {
  return result == cudaErrorInvalidResourceHandle ? cudaErrorInvalidValue : (cudaError_t)result;
}

/* The bytes of an element, and of a row. */
cudaError_t tsr_array_sizes(cudaArray_const_t array, size_t *element_bytes, size_t *row_bytes);

/* The bytes of an element, and from a position to the end of the array's first slice; INVALID_VALUE
 * if the position is outside. */
cudaError_t tsr_array_rest(cudaArray_const_t array, size_t x_bytes, size_t y,
                           size_t *element_bytes, size_t *rest_bytes);

#endif
