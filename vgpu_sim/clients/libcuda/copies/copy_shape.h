/* Copies of regions of up to three dimensions. */
#ifndef TSR_COPY_SHAPE_H
#define TSR_COPY_SHAPE_H

#include "copies/array_side.h"

CUresult tsr_copy_shape(CUstream handle, const struct tsr_side *to, const struct tsr_side *from,
                        const struct tsr_shape *wanted, bool now);

#endif
