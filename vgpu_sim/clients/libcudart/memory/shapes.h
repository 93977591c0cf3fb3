/* Copies of rectangles and boxes, as the driver describes them. */
#ifndef TSR_SHAPES_H
#define TSR_SHAPES_H

#include "driver.h"

/* Translate a copy of a box. Positions and widths in arrays are in elements; such copies are refused
 * until the driver has arrays. */
cudaError_t tsr_box_of(const struct cudaMemcpy3DParms *copy, struct CUDA_MEMCPY3D *out);
/* The opposite, for a copy between pointers. */
void tsr_box_to(const struct CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *out);

#endif
