/* Where the elements of an array are in its memory: row after row, without gaps. */
#ifndef TSR_LAYOUT_H
#define TSR_LAYOUT_H

#include "arrays/format.h"
#include "base/objects.h"

/* The shapes as kernels number them in descriptors (docs/adr/0166). */
enum tsr_shape_kind {
  TSR_SHAPE_1D,
  TSR_SHAPE_2D,
  TSR_SHAPE_3D,
  TSR_SHAPE_1D_LAYERED,
  TSR_SHAPE_2D_LAYERED,
  TSR_SHAPE_CUBE,
  TSR_SHAPE_CUBE_LAYERED,
  TSR_SHAPE_LINEAR, /* of a texture: there are no such arrays */
};

enum { TSR_MAX_LEVELS = 17 };

struct tsr_layout {
  enum tsr_shape_kind kind;
  struct tsr_element element;
  uint32_t width, height, depth; /* height and depth are 1 where the array has none */
  uint32_t layers;               /* faces of cube maps; 1: the array is not layered */
  uint64_t row_bytes, slice_bytes, bytes; /* a slice is a depth, a layer or a face */
};

/* Check a description of an array, or of the first level of a mipmapped array, against what the
 * device supports, and lay out the array. */
CUresult tsr_layout_of(const struct tsr_device *device, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                       bool mipmapped, struct tsr_layout *layout);

/* Whether the device supports surfaces as large as an array of this description and shape. */
bool tsr_layout_fits_surface(const struct tsr_device *device,
                             const CUDA_ARRAY3D_DESCRIPTOR *descriptor, enum tsr_shape_kind kind);

/* Return how many levels a mipmapped array can have. */
unsigned tsr_layout_levels(const struct tsr_layout *first);

/* Lay out a level of a mipmapped array. */
struct tsr_layout tsr_layout_of_level(const struct tsr_layout *first, unsigned level);

#endif
