/* Sizes of arrays. */
#ifndef TSR_ARRAY_H
#define TSR_ARRAY_H

#include "runtime_types.h"

/* The bytes of an element, and of a row. */
cudaError_t tsr_array_sizes(cudaArray_const_t array, size_t *element_bytes, size_t *row_bytes);

#endif
