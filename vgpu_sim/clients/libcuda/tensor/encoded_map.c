/* The rules that the arguments of all tensor maps obey. */
#include "tensor/encoded_map.h"

#include <string.h>

#include "base/refuse.h"
#include "contexts/context.h"

enum { MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8, WIDE_GRANULE = 32 };
enum { BITS_OF_BYTE = 8, PADDED_ELEMENTS = 128 };

_Static_assert(sizeof(struct tsr_map) == sizeof(CUtensorMap), "a tensor map has 128 bytes");

/* For each data type: the bits of an element, its number in tensormap.replace, whether it is of
 * floats, whether it gets padding in shared memory. */
static const struct type {
  uint8_t bits, number;
  bool floats, padded;
} types[] = {
    [CU_TENSOR_MAP_DATA_TYPE_UINT8] = {8, 0, false, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT16] = {16, 1, false, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT32] = {32, 2, false, false},
    [CU_TENSOR_MAP_DATA_TYPE_INT32] = {32, 3, false, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT64] = {64, 4, false, false},
    [CU_TENSOR_MAP_DATA_TYPE_INT64] = {64, 5, false, false},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = {16, 6, true, false},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = {32, 7, true, false},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = {64, 9, true, false},
    [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = {16, 10, true, false},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = {32, 8, true, false},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = {32, 11, true, false},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = {32, 12, true, false},
    [CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B] = {4, 13, false, false},
    [CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B] = {4, 14, false, true},
    [CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B] = {6, 15, false, true},
};

/* For each swizzle: the most bytes of a row of the box (0: any number), and its numbers in
 * tensormap.replace. */
static const struct swizzle {
  uint8_t bytes, number, atomicity;
} swizzles[] = {
    [CU_TENSOR_MAP_SWIZZLE_NONE] = {0, 0, 0},
    [CU_TENSOR_MAP_SWIZZLE_32B] = {32, 1, 0},
    [CU_TENSOR_MAP_SWIZZLE_64B] = {64, 2, 0},
    [CU_TENSOR_MAP_SWIZZLE_128B] = {128, 3, 0},
    [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B] = {128, 3, 1},
    [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B] = {128, 3, 2},
    [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B] = {128, 3, 3},
};

/* True if a number is one of the values 0 to `last` of an enumeration. */
static bool is_in_enumeration(int value, int last) { return value >= 0 && value <= last; }

bool tsr_map_is_address(uint64_t address, uint64_t granule) {
  return address && address % granule == 0;
}

static bool are_dimensions_valid(const struct tsr_map_arguments *given, uint64_t granule) {
  for (cuuint32_t i = 0; i < given->rank; i++) {
    if (!given->sizes[i] || given->sizes[i] > (cuuint64_t)1 << 32) return false;
    if (!given->element_strides[i] || given->element_strides[i] > MAX_ELEMENT_STRIDE) return false;
    if (i == 0) continue;
    const cuuint64_t stride = given->strides[i - 1];
    if (stride % granule || stride >= (cuuint64_t)1 << 40) return false;
  }
  return true;
}

static bool is_packed(const struct tsr_map_arguments *given) {
  return types[given->type].bits < BITS_OF_BYTE;
}

/* Whether the sizes and the swizzle are possible for elements of 4 and 6 bits. */
static bool is_packing_valid(const struct tsr_map_arguments *given) {
  const bool of_6_bits = given->type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
  if (!types[given->type].padded) return given->sizes[0] % 2 == 0;
  if (given->sizes[0] % PADDED_ELEMENTS || given->width != PADDED_ELEMENTS) return false;
  if (of_6_bits && given->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return false;
  switch (given->swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
    case CU_TENSOR_MAP_SWIZZLE_128B:
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B:
      return true;
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B:
      return of_6_bits;
    default:
      return false;
  }
}

static bool are_enumerations_valid(const struct tsr_map_arguments *given) {
  return is_in_enumeration((int)given->type, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B) &&
         is_in_enumeration((int)given->interleave, CU_TENSOR_MAP_INTERLEAVE_32B) &&
         is_in_enumeration((int)given->swizzle, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) &&
         is_in_enumeration((int)given->promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B) &&
         is_in_enumeration((int)given->fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
}

/* Whether CUDA allows the layout of a row in shared memory. */
static bool is_row_valid(const struct tsr_map_arguments *given, uint32_t row_bytes) {
  if (given->interleave == CU_TENSOR_MAP_INTERLEAVE_32B)
    return given->swizzle == CU_TENSOR_MAP_SWIZZLE_32B;
  if (given->interleave == CU_TENSOR_MAP_INTERLEAVE_16B) return true;
  const uint32_t span = swizzles[given->swizzle].bytes;
  return row_bytes % TSR_MAP_GRANULE == 0 && (span == 0 || row_bytes <= span);
}

/* Refuse what CUDA allows and copies do not perform. */
static CUresult refuse_interleaved(const struct tsr_map_arguments *given, uint32_t row_bytes) {
  const uint32_t span = swizzles[given->swizzle].bytes;
  if (given->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE) return CUDA_SUCCESS;
  if (is_packed(given)) TSR_REFUSE("cuTensorMapEncode: an interleaved layout of packed elements");
  if (given->element_strides[0] != 1)
    TSR_REFUSE("cuTensorMapEncode: a stride between channels of an interleaved layout");
  if (row_bytes % TSR_MAP_GRANULE || (span != 0 && row_bytes > span))
    TSR_REFUSE("cuTensorMapEncode: an interleaved layout whose rows are wider than the swizzle, or"
               " no multiple of 16 bytes");
  return CUDA_SUCCESS;
}

CUresult tsr_map_encode(const struct tsr_map_arguments *given, struct tsr_map *map) {
  TSR_CURRENT(context); /* its device decides what a map may hold */
  (void)context;
  if (!given->map || !given->sizes || !given->element_strides) return CUDA_ERROR_INVALID_VALUE;
  if (!given->rank || given->rank > TSR_MAP_RANKS) return CUDA_ERROR_INVALID_VALUE;
  if (given->rank > 1 && !given->strides) return CUDA_ERROR_INVALID_VALUE;
  if (!are_enumerations_valid(given)) return CUDA_ERROR_INVALID_VALUE;
  const struct type type = types[given->type];
  const bool wide = given->interleave == CU_TENSOR_MAP_INTERLEAVE_32B || type.padded;
  const uint64_t granule = wide ? WIDE_GRANULE : TSR_MAP_GRANULE;
  if (!tsr_map_is_address((uintptr_t)given->address, granule) ||
      !are_dimensions_valid(given, granule) || !given->width || given->width > MAX_BOX)
    return CUDA_ERROR_INVALID_VALUE;
  if (given->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && given->rank < 3)
    return CUDA_ERROR_INVALID_VALUE;
  if (given->fill && !type.floats) return CUDA_ERROR_INVALID_VALUE;
  if (is_packed(given) && !is_packing_valid(given)) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t row_bits = given->width * type.bits;
  if (row_bits % BITS_OF_BYTE || !is_row_valid(given, row_bits / BITS_OF_BYTE))
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult refused = refuse_interleaved(given, row_bits / BITS_OF_BYTE);
  if (refused != CUDA_SUCCESS) return refused;
  *map = (struct tsr_map){
      .address = (uintptr_t)given->address,
      .rank = (uint8_t)(given->rank - 1),
      .type = type.number,
      .interleave = (uint8_t)given->interleave,
      .swizzle = swizzles[given->swizzle].number,
      .atomicity = swizzles[given->swizzle].atomicity,
      .fill = (uint8_t)given->fill,
      .promotion = (uint8_t)given->promotion,
  };
  map->box[0] = (uint16_t)given->width;
  for (cuuint32_t i = 0; i < given->rank; i++) {
    map->sizes[i] = (uint32_t)(given->sizes[i] - 1);
    map->element_strides[i] = (uint8_t)given->element_strides[i];
    if (i > 0) map->strides[i - 1] = given->strides[i - 1];
  }
  return CUDA_SUCCESS;
}
