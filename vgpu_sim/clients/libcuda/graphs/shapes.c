#include "graphs/shapes.h"

#include "copies/array_side.h"

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

/* One side of a copy. */
struct end {
  CUmemorytype type;
  CUarray array;
  uint64_t x, y, z, pitch, height, level, address;
};

static struct end target_of(const CUDA_MEMCPY3D *copy) {
  const bool host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
  return (struct end){copy->dstMemoryType, copy->dstArray, copy->dstXInBytes, copy->dstY,
                      copy->dstZ,          copy->dstPitch, copy->dstHeight,   copy->dstLOD,
                      host ? (uint64_t)(uintptr_t)copy->dstHost : copy->dstDevice};
}

static struct end source_of(const CUDA_MEMCPY3D *copy) {
  const bool host = copy->srcMemoryType == CU_MEMORYTYPE_HOST;
  return (struct end){copy->srcMemoryType, copy->srcArray, copy->srcXInBytes, copy->srcY,
                      copy->srcZ,          copy->srcPitch, copy->srcHeight,   copy->srcLOD,
                      host ? (uint64_t)(uintptr_t)copy->srcHost : copy->srcDevice};
}

/* Find where a side begins, and the distances of its rows and layers. */
static CUresult place(const struct end *end, const CUDA_MEMCPY3D *copy, struct tsr_side *side) {
  const struct tsr_shape shape = {
      .width_bytes = copy->WidthInBytes, .height = copy->Height, .depth = copy->Depth};
  if (end->type == CU_MEMORYTYPE_ARRAY)
    return tsr_array_side(end->array, (const uint64_t[3]){end->x, end->y, end->z}, &shape, side);
  const uint64_t layer = end->pitch * end->height;
  *side = (struct tsr_side){.address = end->address + end->x + end->y * end->pitch + end->z * layer,
                            .pitch_bytes = end->pitch,
                            .layer_bytes = layer};
  return CUDA_SUCCESS;
}

static CUresult check(const struct end *end, const CUDA_MEMCPY3D *copy) {
  struct tsr_side side;
  if (end->level) return CUDA_ERROR_INVALID_VALUE;
  if (end->type == CU_MEMORYTYPE_ARRAY) return place(end, copy, &side);
  return is_memory(end->type) && fits(end->x, end->y, end->z, end->pitch, end->height, copy)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_shape_check(const CUDA_MEMCPY3D *copy) {
  const struct end to = target_of(copy), from = source_of(copy);
  const CUresult result = check(&to, copy);
  return result == CUDA_SUCCESS ? check(&from, copy) : result;
}

CUresult tsr_shape_of(const CUDA_MEMCPY3D *copy, struct tsr_copy_shape *shape, uint64_t *to,
                      uint64_t *from) {
  const struct end target = target_of(copy), source = source_of(copy);
  struct tsr_side to_side, from_side;
  CUresult result = place(&target, copy, &to_side);
  if (result == CUDA_SUCCESS) result = place(&source, copy, &from_side);
  if (result != CUDA_SUCCESS) return result;
  *shape = (struct tsr_copy_shape){.bytes = copy->WidthInBytes,
                                   .rows = copy->Height,
                                   .layers = copy->Depth,
                                   .to_row_bytes = to_side.pitch_bytes,
                                   .to_layer_bytes = to_side.layer_bytes,
                                   .from_row_bytes = from_side.pitch_bytes,
                                   .from_layer_bytes = from_side.layer_bytes};
  *to = to_side.address;
  *from = from_side.address;
  return CUDA_SUCCESS;
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
