/* Tensor maps of columns of pixels (CUDA Driver API, "Tensor Map Object Management"). */
#include <string.h>

#include "tensor/encoded_map.h"

enum { MAX_PIXELS = 1024, MIN_RANK = 3, WIDTH = 1 /* the dimension of an image's width */ };

/* The bits of a corner's number, according to the number of an image's dimensions. */
static const int corner_bits[] = {0, 16, 8, 5};

/* Set the corners in one dimension; false: they are out of range, or no pixel is between them. */
static bool set_corners(struct tsr_map *map, cuuint32_t dimension, int lower, int upper, int bits) {
  const int limit = 1 << (bits - 1);
  if (lower < -limit || lower >= limit || upper < -limit || upper >= limit) return false;
  if ((int64_t)map->sizes[dimension] + upper < lower) return false;
  map->lower[dimension - 1] = (int16_t)lower;
  map->upper[dimension - 1] = (int16_t)upper;
  return true;
}

static bool set_pixels(struct tsr_map *map, cuuint32_t pixels) {
  map->pixels = (uint16_t)pixels;
  return pixels != 0 && pixels <= MAX_PIXELS;
}

CUresult tsr_cuTensorMapEncodeIm2col(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  if (!pixelBoxLowerCorner || !pixelBoxUpperCorner || tensorRank < MIN_RANK)
    return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_map_arguments given = {
      .map = tensorMap,
      .type = tensorDataType,
      .rank = tensorRank,
      .address = globalAddress,
      .sizes = globalDim,
      .strides = globalStrides,
      .element_strides = elementStrides,
      .width = channelsPerPixel,
      .interleave = interleave,
      .swizzle = swizzle,
      .promotion = l2Promotion,
      .fill = oobFill,
  };
  struct tsr_map map;
  const CUresult status = tsr_map_encode(&given, &map);
  if (status != CUDA_SUCCESS) return status;
  map.access = TSR_MAP_IM2COL;
  if (!set_pixels(&map, pixelsPerColumn)) return CUDA_ERROR_INVALID_VALUE;
  const cuuint32_t dimensions = tensorRank - 2;
  for (cuuint32_t i = 0; i < dimensions; i++)
    if (!set_corners(&map, i + 1, pixelBoxLowerCorner[i], pixelBoxUpperCorner[i],
                     corner_bits[dimensions]))
      return CUDA_ERROR_INVALID_VALUE;
  memcpy(tensorMap, &map, sizeof map);
  return CUDA_SUCCESS;
}

static bool is_wide_swizzle(CUtensorMapSwizzle swizzle) {
  return swizzle == CU_TENSOR_MAP_SWIZZLE_64B || swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
         swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B;
}

CUresult tsr_cuTensorMapEncodeIm2colWide(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  if (tensorRank < MIN_RANK || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      !is_wide_swizzle(swizzle) || mode < CU_TENSOR_MAP_IM2COL_WIDE_MODE_W ||
      mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128)
    return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_map_arguments given = {
      .map = tensorMap,
      .type = tensorDataType,
      .rank = tensorRank,
      .address = globalAddress,
      .sizes = globalDim,
      .strides = globalStrides,
      .element_strides = elementStrides,
      .width = channelsPerPixel,
      .interleave = interleave,
      .swizzle = swizzle,
      .promotion = l2Promotion,
      .fill = oobFill,
  };
  struct tsr_map map;
  const CUresult status = tsr_map_encode(&given, &map);
  if (status != CUDA_SUCCESS) return status;
  const bool of_128 = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
  map.access = of_128 ? TSR_MAP_WIDE_128 : TSR_MAP_WIDE;
  if (!of_128 && !set_pixels(&map, pixelsPerColumn)) return CUDA_ERROR_INVALID_VALUE;
  if (!set_corners(&map, WIDTH, pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth,
                   corner_bits[1]))
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(tensorMap, &map, sizeof map);
  return CUDA_SUCCESS;
}
