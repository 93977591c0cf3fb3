/* Formats of the elements of arrays and textures. */
#ifndef TSR_FORMAT_H
#define TSR_FORMAT_H

#include <stdbool.h>

#include "driver_types.h"

/* The formats as kernels number them in descriptors (docs/adr/0166). */
enum tsr_format {
  TSR_FORMAT_U8,
  TSR_FORMAT_U16,
  TSR_FORMAT_U32,
  TSR_FORMAT_S8,
  TSR_FORMAT_S16,
  TSR_FORMAT_S32,
  TSR_FORMAT_F16,
  TSR_FORMAT_F32,
};

struct tsr_element {
  enum tsr_format format;
  uint8_t channels;
  uint8_t bytes; /* of all channels */
};

/* Check a format and a number of channels, and describe the element. */
CUresult tsr_element_of(CUarray_format format, unsigned channels, struct tsr_element *element);

/* The same for the format of a resource view, which is neither NONE nor block-compressed. */
struct tsr_element tsr_element_of_view(CUresourceViewFormat format);

/* Whether fetches can only return the elements as integers. */
bool tsr_format_is_wide_integer(enum tsr_format format);

#endif
