/* Sizes of arrays; INVALID_VALUE if there is no such array. */
#ifndef TSR_ARRAY_H
#define TSR_ARRAY_H

#include "runtime_types.h"

/* The bytes of an element, and of a row. */
cudaError_t tsr_array_sizes(cudaArray_const_t array, size_t *element_bytes, size_t *row_bytes);

/* The bytes of an element, and from a position to the end of the array's first slice; INVALID_VALUE
 * if the position is outside. */
cudaError_t tsr_array_rest(cudaArray_const_t array, size_t x_bytes, size_t y,
                           size_t *element_bytes, size_t *rest_bytes);

#endif
