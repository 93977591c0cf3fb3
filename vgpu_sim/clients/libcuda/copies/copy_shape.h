/* Copies of regions of up to three dimensions. */
#ifndef TSR_COPY_SHAPE_H
#define TSR_COPY_SHAPE_H

#include "copies/copy.h"

struct tsr_shape {
  uint64_t width_bytes, height, depth;
};

/* Where a region begins on one side, and how far apart its rows and layers are. */
struct tsr_side {
  tsr_locator *locate;
  uint64_t address, pitch_bytes, layer_bytes;
};

CUresult tsr_copy_shape(CUstream handle, const struct tsr_side *to, const struct tsr_side *from,
                        const struct tsr_shape *wanted, bool now);

#endif
