#include "copies/array_side.h"

static bool is_inside(uint64_t at, uint64_t extent, uint64_t whole) {
  return at <= whole && extent <= whole - at;
}

CUresult tsr_array_side(CUarray array, const uint64_t at[3], const struct tsr_shape *shape,
                        struct tsr_side *side) {
  struct tsr_array_facts facts;
  if (!tsr_array_read(array, &facts)) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_layout *layout = &facts.layout;
  if (at[0] % layout->element.bytes || !is_inside(at[0], shape->width_bytes, layout->row_bytes) ||
      !is_inside(at[1], shape->height, layout->height) ||
      !is_inside(at[2], shape->depth, (uint64_t)layout->depth * layout->layers))
    return CUDA_ERROR_INVALID_VALUE;
  *side = (struct tsr_side){
      .locate = tsr_locate_device,
      .address =
          facts.address + at[0] + at[1] * layout->row_bytes + at[2] * layout->slice_bytes,
      .pitch_bytes = layout->row_bytes,
      .layer_bytes = layout->slice_bytes,
      .array = array,
      .x_bytes = at[0],
      .y = at[1],
      .z = at[2],
  };
  return CUDA_SUCCESS;
}
