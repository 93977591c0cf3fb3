/* Tensor maps of tiles, and the address of a map (CUDA Driver API, "Tensor Map Object Management"). */
#include <string.h>

#include "tensor/encoded_map.h"

enum { MAX_BOX = 256 };

CUresult tsr_cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                    cuuint32_t tensorRank, void *globalAddress,
                                    const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                    const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion l2Promotion,
                                    CUtensorMapFloatOOBfill oobFill) {
  if (!boxDim) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_map_arguments given = {
      .map = tensorMap,
      .type = tensorDataType,
      .rank = tensorRank,
      .address = globalAddress,
      .sizes = globalDim,
      .strides = globalStrides,
      .element_strides = elementStrides,
      .width = boxDim[0],
      .interleave = interleave,
      .swizzle = swizzle,
      .promotion = l2Promotion,
      .fill = oobFill,
  };
  struct tsr_map map;
  const CUresult status = tsr_map_encode(&given, &map);
  if (status != CUDA_SUCCESS) return status;
  for (cuuint32_t i = 0; i < tensorRank; i++) {
    if (!boxDim[i] || boxDim[i] > MAX_BOX) return CUDA_ERROR_INVALID_VALUE;
    map.box[i] = (uint16_t)boxDim[i];
  }
  memcpy(tensorMap, &map, sizeof map);
  return CUDA_SUCCESS;
}

CUresult tsr_cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
  if (!tensorMap) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_map_is_address((uintptr_t)globalAddress, TSR_MAP_GRANULE))
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_map map;
  memcpy(&map, tensorMap, sizeof map);
  map.address = (uintptr_t)globalAddress;
  memcpy(tensorMap, &map, sizeof map);
  return CUDA_SUCCESS;
}
