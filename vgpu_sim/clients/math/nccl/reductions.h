/* Reductions of numbers in host memory, and the number types of NCCL. */
#ifndef TSR_NCCL_REDUCTIONS_H
#define TSR_NCCL_REDUCTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "nccl_types.h"

/* ncclRedOp_t. A premultiplied sum is one of ncclRedOpCreatePreMulSum. */
enum { TSR_SUM, TSR_PRODUCT, TSR_MAXIMUM, TSR_MINIMUM, TSR_AVERAGE, TSR_PREMULTIPLIED_SUM };

/* Return the bytes of an element of an ncclDataType_t, or 0 if there is no such type. */
size_t tsr_element_bytes(int datatype);

/* Reduce `parts` arrays of `count` elements into `target`, which may be one of them. The arrays are combined
 * in the order of `parts`; floating-point types narrower than 32 bits are combined in float and rounded once. */
void tsr_reduce(void *target, const void *const *parts, int parts_count, size_t count, int datatype, int op);

/* Multiply an array by the scalar, an element of the same type. */
void tsr_scale(void *array, size_t count, int datatype, const void *scalar);

#endif
