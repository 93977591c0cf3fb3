/* Copies of rectangles and boxes, as the driver describes them. */
#ifndef TSR_SHAPES_H
#define TSR_SHAPES_H

#include <stdbool.h>

#include "driver.h"

/* Find the driver's memory types of a copy's source and target, of which arrays are on the device. */
cudaError_t tsr_copy_types(int kind, bool source_is_array, bool target_is_array, int *source,
                           int *target);

/* Translate a copy of a box. Positions in arrays, and widths of copies with arrays, are in elements. */
cudaError_t tsr_box_of(const struct cudaMemcpy3DParms *copy, struct CUDA_MEMCPY3D *out);
/* The opposite. */
void tsr_box_to(const struct CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *out);

#endif
