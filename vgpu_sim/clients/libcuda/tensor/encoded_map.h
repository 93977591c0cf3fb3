/* The bytes of a tensor map, and the rules that all its arguments obey (CUDA Driver API, "Tensor Map
 * Object Management"). The layout is that of compiler/lower/copies/tensor_map.py; kernels trust none
 * of its fields. */
#ifndef TSR_ENCODED_MAP_H
#define TSR_ENCODED_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "api.h"

enum { TSR_MAP_RANKS = 5, TSR_MAP_CORNERS = 3, TSR_MAP_GRANULE = 16 };
enum { TSR_MAP_TILED, TSR_MAP_IM2COL, TSR_MAP_WIDE, TSR_MAP_WIDE_128 };

struct tsr_map {
  uint64_t address;
  uint64_t strides[TSR_MAP_RANKS - 1]; /* in bytes, from dimension 1 on */
  uint32_t sizes[TSR_MAP_RANKS];       /* minus 1 */
  uint16_t box[TSR_MAP_RANKS];
  uint8_t element_strides[TSR_MAP_RANKS];
  uint8_t rank; /* minus 1 */
  uint8_t type, interleave, swizzle, fill, atomicity; /* as tensormap.replace numbers them */
  uint8_t promotion;
  uint8_t access; /* TSR_MAP_... */
  uint8_t zero;
  uint16_t pixels;
  int16_t lower[TSR_MAP_CORNERS], upper[TSR_MAP_CORNERS]; /* from dimension 1 on */
  uint8_t zeros[30];
};

/* The arguments that all kinds of maps have. */
struct tsr_map_arguments {
  CUtensorMap *map;
  CUtensorMapDataType type;
  cuuint32_t rank;
  const void *address;
  const cuuint64_t *sizes, *strides;
  const cuuint32_t *element_strides;
  cuuint32_t width; /* elements of the box in dimension 0 */
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

/* Check the arguments and set their fields of a map, and zeros. */
CUresult tsr_map_encode(const struct tsr_map_arguments *given, struct tsr_map *map);

/* Whether an address can be that of a tensor. */
bool tsr_map_is_address(uint64_t address, uint64_t granule);

#endif
