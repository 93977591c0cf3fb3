/* Tensor maps (CUDA Driver API, "Tensor Map Object Management"): what kernels' bulk copies of
 * tensors read. The layout is that of compiler/lower/copies/tensor_map.py; kernels trust none of
 * its fields. */
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "base/refuse.h"

enum { MAX_RANK = 5, MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8, GRANULE = 16, WIDE_GRANULE = 32 };

struct map {
  uint64_t address;
  uint64_t strides[MAX_RANK - 1]; /* in bytes, from dimension 1 on */
  uint32_t sizes[MAX_RANK];       /* minus 1 */
  uint16_t box[MAX_RANK];
  uint8_t element_strides[MAX_RANK];
  uint8_t rank; /* minus 1 */
  uint8_t type, interleave, swizzle, fill, atomicity; /* as tensormap.replace numbers them */
  uint8_t promotion;
  uint8_t zeros[46];
};
_Static_assert(sizeof(struct map) == sizeof(CUtensorMap), "a tensor map has 128 bytes");

/* For each data type: its bytes, its number in tensormap.replace, whether it is of floats. */
static const struct type {
  uint8_t bytes, number;
  bool floats;
} types[] = {
    [CU_TENSOR_MAP_DATA_TYPE_UINT8] = {1, 0, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT16] = {2, 1, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT32] = {4, 2, false},
    [CU_TENSOR_MAP_DATA_TYPE_INT32] = {4, 3, false},
    [CU_TENSOR_MAP_DATA_TYPE_UINT64] = {8, 4, false},
    [CU_TENSOR_MAP_DATA_TYPE_INT64] = {8, 5, false},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = {2, 6, true},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = {4, 7, true},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = {8, 9, true},
    [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = {2, 10, true},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = {4, 8, true},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = {4, 11, true},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = {4, 12, true},
};

/* True if a number is one of the values 0 to `last` of an enumeration. */
static bool is_in_enumeration(int value, int last) { return value >= 0 && value <= last; }

/* The most bytes of a row of the box; 0: any number. */
static uint32_t swizzle_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    default:
      return 128;
  }
}

static bool is_address_valid(uint64_t address, uint64_t granule) {
  return address && address % granule == 0;
}

static bool are_dimensions_valid(cuuint32_t rank, const cuuint64_t *sizes,
                                 const cuuint64_t *strides, const cuuint32_t *box,
                                 const cuuint32_t *element_strides, uint64_t granule) {
  for (cuuint32_t i = 0; i < rank; i++) {
    if (!sizes[i] || sizes[i] > (cuuint64_t)1 << 32) return false;
    if (!box[i] || box[i] > MAX_BOX) return false;
    if (!element_strides[i] || element_strides[i] > MAX_ELEMENT_STRIDE) return false;
    if (i == 0) continue;
    if (strides[i - 1] % granule || strides[i - 1] >= (cuuint64_t)1 << 40) return false;
  }
  return true;
}

CUresult tsr_cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                    cuuint32_t tensorRank, void *globalAddress,
                                    const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                    const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion l2Promotion,
                                    CUtensorMapFloatOOBfill oobFill) {
  if (!tensorMap || !globalDim || !boxDim || !elementStrides) return CUDA_ERROR_INVALID_VALUE;
  if (!tensorRank || tensorRank > MAX_RANK) return CUDA_ERROR_INVALID_VALUE;
  if (tensorRank > 1 && !globalStrides) return CUDA_ERROR_INVALID_VALUE;
  if (!is_in_enumeration((int)tensorDataType, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B) ||
      !is_in_enumeration((int)interleave, CU_TENSOR_MAP_INTERLEAVE_32B) ||
      !is_in_enumeration((int)swizzle, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B) ||
      !is_in_enumeration((int)l2Promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B) ||
      !is_in_enumeration((int)oobFill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA))
    return CUDA_ERROR_INVALID_VALUE;
  const bool packed = tensorDataType >= CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  const bool wide = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ||
                    tensorDataType > CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
  const uint64_t granule = wide ? WIDE_GRANULE : GRANULE;
  if (!is_address_valid((uintptr_t)globalAddress, granule) ||
      !are_dimensions_valid(tensorRank, globalDim, globalStrides, boxDim, elementStrides, granule))
    return CUDA_ERROR_INVALID_VALUE;
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && tensorRank < 3)
    return CUDA_ERROR_INVALID_VALUE;
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != CU_TENSOR_MAP_SWIZZLE_32B)
    return CUDA_ERROR_INVALID_VALUE;
  if (packed) TSR_REFUSE("cuTensorMapEncodeTiled: a type of packed elements");
  const struct type type = types[tensorDataType];
  if (oobFill && !type.floats) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t row = boxDim[0] * type.bytes;
  if (interleave == CU_TENSOR_MAP_INTERLEAVE_NONE) {
    if (row % GRANULE) return CUDA_ERROR_INVALID_VALUE;
    if (swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && row > swizzle_bytes(swizzle))
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    TSR_REFUSE("cuTensorMapEncodeTiled: an interleaved layout");
  if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B)
    TSR_REFUSE("cuTensorMapEncodeTiled: a swizzle of atoms of 32 or 64 bytes");
  struct map map = {
      .address = (uintptr_t)globalAddress,
      .rank = (uint8_t)(tensorRank - 1),
      .type = type.number,
      .swizzle = (uint8_t)swizzle,
      .fill = (uint8_t)oobFill,
      .promotion = (uint8_t)l2Promotion,
  };
  for (cuuint32_t i = 0; i < tensorRank; i++) {
    map.sizes[i] = (uint32_t)(globalDim[i] - 1);
    map.box[i] = (uint16_t)boxDim[i];
    map.element_strides[i] = (uint8_t)elementStrides[i];
    if (i > 0) map.strides[i - 1] = globalStrides[i - 1];
  }
  memcpy(tensorMap, &map, sizeof map);
  return CUDA_SUCCESS;
}

CUresult tsr_cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
  if (!tensorMap) return CUDA_ERROR_INVALID_VALUE;
  if (!is_address_valid((uintptr_t)globalAddress, GRANULE)) return CUDA_ERROR_INVALID_VALUE;
  struct map map;
  memcpy(&map, tensorMap, sizeof map);
  map.address = (uintptr_t)globalAddress;
  memcpy(tensorMap, &map, sizeof map);
  return CUDA_SUCCESS;
}
