/* The side of a copy that is an array. */
#ifndef TSR_ARRAY_SIDE_H
#define TSR_ARRAY_SIDE_H

#include "arrays/array.h"
#include "copies/copy.h"

struct tsr_shape {
  uint64_t width_bytes, height, depth;
};

/* Where a region begins on one side, and how far apart its rows and layers are. */
struct tsr_side {
  tsr_locator *locate;
  uint64_t address, pitch_bytes, layer_bytes;
  CUarray array; /* NULL: memory */
  uint64_t x_bytes, y, z; /* in an array */
};

/* Check that an array contains a region, and describe it. */
CUresult tsr_array_side(CUarray array, const uint64_t at[3], const struct tsr_shape *shape,
                        struct tsr_side *side);

#endif
