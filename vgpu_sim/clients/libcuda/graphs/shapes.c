#include "graphs/shapes.h"

#include "base/refuse.h"

/* No offset, pitch or product of them exceeds the aperture, so that sums do not overflow. */
static bool is_small(uint64_t value) { return value <= TESSERA_APERTURE_BYTES; }

static bool fits(uint64_t x, uint64_t y, uint64_t z, uint64_t pitch, uint64_t height,
                 const CUDA_MEMCPY3D *copy) {
  if (!is_small(x) || !is_small(y) || !is_small(z) || !is_small(pitch) || !is_small(height) ||
      !is_small(copy->WidthInBytes) || !is_small(copy->Height) || !is_small(copy->Depth))
    return false;
  const bool rows = copy->Height > 1 || y > 0, layers = copy->Depth > 1 || z > 0;
  if ((rows || layers) && pitch < x + copy->WidthInBytes) return false;
  if (layers && height < y + copy->Height) return false;
  unsigned __int128 bytes = (unsigned __int128)(z + copy->Depth) * (height + 1) * (pitch + 1);
  if (layers) return bytes <= TESSERA_APERTURE_BYTES;
  bytes = (unsigned __int128)(y + copy->Height) * (pitch + 1);
  return !rows || bytes <= TESSERA_APERTURE_BYTES;
}

static bool is_memory(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
         type == CU_MEMORYTYPE_UNIFIED;
}

CUresult tsr_shape_check(const CUDA_MEMCPY3D *copy) {
  if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
      copy->dstMemoryType == CU_MEMORYTYPE_ARRAY)
    TSR_REFUSE("a graph's copy from or to a CUDA array");
  if (!is_memory(copy->srcMemoryType) || !is_memory(copy->dstMemoryType) || copy->srcLOD ||
      copy->dstLOD)
    return CUDA_ERROR_INVALID_VALUE;
  const bool valid = fits(copy->srcXInBytes, copy->srcY, copy->srcZ, copy->srcPitch,
                          copy->srcHeight, copy) &&
                     fits(copy->dstXInBytes, copy->dstY, copy->dstZ, copy->dstPitch,
                          copy->dstHeight, copy);
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct tsr_copy_shape tsr_shape_of(const CUDA_MEMCPY3D *copy, uint64_t *to, uint64_t *from) {
  const bool to_host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
  const bool from_host = copy->srcMemoryType == CU_MEMORYTYPE_HOST;
  const struct tsr_copy_shape shape = {.bytes = copy->WidthInBytes,
                                       .rows = copy->Height,
                                       .layers = copy->Depth,
                                       .to_row_bytes = copy->dstPitch,
                                       .to_layer_bytes = copy->dstPitch * copy->dstHeight,
                                       .from_row_bytes = copy->srcPitch,
                                       .from_layer_bytes = copy->srcPitch * copy->srcHeight};
  *to = (to_host ? (uint64_t)(uintptr_t)copy->dstHost : copy->dstDevice) + copy->dstXInBytes +
        copy->dstY * shape.to_row_bytes + copy->dstZ * shape.to_layer_bytes;
  *from = (from_host ? (uint64_t)(uintptr_t)copy->srcHost : copy->srcDevice) + copy->srcXInBytes +
          copy->srcY * shape.from_row_bytes + copy->srcZ * shape.from_layer_bytes;
  return shape;
}

CUresult tsr_fill_check(const CUDA_MEMSET_NODE_PARAMS *fill) {
  const uint64_t width = fill->elementSize;
  if ((width != 1 && width != 2 && width != 4) || fill->width == 0 || fill->height == 0 ||
      !fill->dst || fill->dst % width != 0 || !is_small(fill->width) || !is_small(fill->height))
    return CUDA_ERROR_INVALID_VALUE;
  if (fill->height == 1) return CUDA_SUCCESS;
  if (!is_small(fill->pitch) || fill->pitch % width != 0 || fill->pitch < fill->width * width ||
      (unsigned __int128)fill->height * fill->pitch > TESSERA_APERTURE_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
