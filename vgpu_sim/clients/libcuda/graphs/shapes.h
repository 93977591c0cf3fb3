/* Shapes of copies and fills: checks, and the form in which they are enqueued. */
#ifndef TSR_SHAPES_H
#define TSR_SHAPES_H

#include "copies/graph_copy.h"

/* Check the arguments of a copy, without its addresses. */
CUresult tsr_shape_check(const CUDA_MEMCPY3D *copy);

/* Find the shape and both addresses of a copy that tsr_shape_check has accepted; INVALID_VALUE if
 * one of its arrays has been destroyed since then. */
CUresult tsr_shape_of(const CUDA_MEMCPY3D *copy, struct tsr_copy_shape *shape, uint64_t *to,
                      uint64_t *from);

CUresult tsr_fill_check(const CUDA_MEMSET_NODE_PARAMS *fill);

#endif
