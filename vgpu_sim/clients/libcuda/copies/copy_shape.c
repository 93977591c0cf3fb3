/* Copies of two- and three-dimensional regions, row by row. */
#include "api.h"
#include "contexts/context.h"
#include "copies/copy_shape.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "nodes/capture.h"
#include "streams/stream.h"

/* Return the bytes between a side's first and last byte, or false if they are too many. */
static bool extent(const struct tsr_side *side, const struct tsr_shape *shape, uint64_t *bytes) {
  uint64_t layers, rows;
  if (__builtin_mul_overflow(shape->depth - 1, side->layer_bytes, &layers) ||
      __builtin_mul_overflow(shape->height - 1, side->pitch_bytes, &rows) ||
      __builtin_add_overflow(layers, rows, bytes))
    return false;
  return !__builtin_add_overflow(*bytes, shape->width_bytes, bytes);
}

static CUresult locate(const struct tsr_side *side, const struct tsr_shape *shape,
                       struct tsr_end *end) {
  uint64_t bytes;
  if (!extent(side, shape, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  return side->locate(side->address, bytes, end);
}

static struct tsr_end at(const struct tsr_end *end, uint64_t offset) {
  struct tsr_end moved = *end;
  moved.address += offset;
  if (moved.host) moved.host += offset;
  return moved;
}

/* Join rows and layers without gaps. */
static struct tsr_shape join(struct tsr_shape shape, const struct tsr_side *to,
                             const struct tsr_side *from) {
  if (to->pitch_bytes != shape.width_bytes || from->pitch_bytes != shape.width_bytes) return shape;
  shape.width_bytes *= shape.height;
  shape.height = 1;
  if (shape.depth > 1 &&
      (to->layer_bytes != shape.width_bytes || from->layer_bytes != shape.width_bytes))
    return shape;
  shape.width_bytes *= shape.depth;
  shape.depth = 1;
  return shape;
}

static CUresult capture(struct tsr_context *context, uint32_t stream, const struct tsr_side *to,
                        const struct tsr_side *from, const struct tsr_shape *shape) {
  CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                        .srcDevice = from->address,
                        .srcPitch = from->pitch_bytes,
                        .srcHeight = from->pitch_bytes ? from->layer_bytes / from->pitch_bytes : 0,
                        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                        .dstDevice = to->address,
                        .dstPitch = to->pitch_bytes,
                        .dstHeight = to->pitch_bytes ? to->layer_bytes / to->pitch_bytes : 0,
                        .WidthInBytes = shape->width_bytes,
                        .Height = shape->height,
                        .Depth = shape->depth};
  if (from->array) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = from->array;
    copy.srcDevice = copy.srcPitch = copy.srcHeight = 0;
    copy.srcXInBytes = from->x_bytes;
    copy.srcY = from->y;
    copy.srcZ = from->z;
  }
  if (to->array) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to->array;
    copy.dstDevice = copy.dstPitch = copy.dstHeight = 0;
    copy.dstXInBytes = to->x_bytes;
    copy.dstY = to->y;
    copy.dstZ = to->z;
  }
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                    .context = tsr_object_handle(TSR_CONTEXT, context),
                                    .copy = copy};
  return tsr_capture_add(context, stream, &operation);
}

CUresult tsr_copy_shape(CUstream handle, const struct tsr_side *to, const struct tsr_side *from,
                        const struct tsr_shape *wanted, bool now) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(handle, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!wanted->width_bytes || !wanted->height || !wanted->depth) return CUDA_SUCCESS;
  struct tsr_end target, source;
  result = locate(to, wanted, &target);
  if (result == CUDA_SUCCESS) result = locate(from, wanted, &source);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_captures(context, stream)) return capture(context, stream, to, from, wanted);
  if (tsr_copy_is_blocked(context, stream)) return tsr_ring_wait(context, stream, NULL, 0);
  const struct tsr_shape shape = join(*wanted, to, from);
  for (uint64_t z = 0; z < shape.depth; z++)
    for (uint64_t y = 0; y < shape.height && result == CUDA_SUCCESS; y++) {
      const struct tsr_end row_to = at(&target, z * to->layer_bytes + y * to->pitch_bytes);
      const struct tsr_end row_from = at(&source, z * from->layer_bytes + y * from->pitch_bytes);
      result = tsr_copy_between(context, stream, &row_to, &row_from, shape.width_bytes, now);
    }
  return result;
}

/* One side of CUDA_MEMCPY2D or 3D, in common form. */
struct described {
  size_t x, y, z, lod;
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  size_t pitch, height;
};

static CUresult to_side(const struct described *one, const struct tsr_shape *shape,
                        struct tsr_side *side) {
  uint64_t offset, layer;
  if (one->type == CU_MEMORYTYPE_ARRAY) {
    if (one->lod) return CUDA_ERROR_INVALID_VALUE;
    return tsr_array_side(one->array, (const uint64_t[3]){one->x, one->y, one->z}, shape, side);
  }
  const bool rows = shape->height > 1 || shape->depth > 1;
  const bool wrong =
      one->lod != 0 || one->pitch > INT32_MAX ||
      (rows && (one->x > one->pitch || shape->width_bytes > one->pitch - one->x)) ||
      (shape->depth > 1 && (one->y > one->height || shape->height > one->height - one->y));
  if (wrong || __builtin_mul_overflow(one->pitch, one->height, &layer) ||
      __builtin_mul_overflow(layer, one->z, &offset) || one->y > UINT32_MAX ||
      __builtin_add_overflow(offset, one->y * one->pitch, &offset) ||
      __builtin_add_overflow(offset, one->x, &offset))
    return CUDA_ERROR_INVALID_VALUE;
  *side = (struct tsr_side){.pitch_bytes = one->pitch, .layer_bytes = layer};
  switch (one->type) {
    case CU_MEMORYTYPE_HOST:
      side->locate = tsr_locate_host;
      side->address = (uint64_t)(uintptr_t)one->host;
      break;
    case CU_MEMORYTYPE_DEVICE:
      side->locate = tsr_locate_device;
      side->address = one->device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      side->locate = tsr_locate_any;
      side->address = one->device;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!side->address) return CUDA_ERROR_INVALID_VALUE;
  return __builtin_add_overflow(side->address, offset, &side->address) ? CUDA_ERROR_INVALID_VALUE
                                                                       : CUDA_SUCCESS;
}

/* Of a copy of nothing, NVIDIA's driver checks neither side. */
static CUresult copy(const struct described *to, const struct described *from,
                     struct tsr_shape shape, CUstream stream, bool now) {
  struct tsr_context *context;
  uint32_t index;
  if (!shape.width_bytes || !shape.height || !shape.depth)
    return tsr_stream_locate(stream, &context, &index);
  struct tsr_side target, source;
  CUresult result = to_side(to, &shape, &target);
  if (result == CUDA_SUCCESS) result = to_side(from, &shape, &source);
  if (result != CUDA_SUCCESS) return result;
  return tsr_copy_shape(stream, &target, &source, &shape, now);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *given, CUstream stream, bool now) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY2D c = *given;
  const struct described to = {.x = c.dstXInBytes, .y = c.dstY, .type = c.dstMemoryType,
                               .host = c.dstHost, .device = c.dstDevice, .array = c.dstArray, .pitch = c.dstPitch};
  const struct described from = {.x = c.srcXInBytes, .y = c.srcY, .type = c.srcMemoryType,
                                 .host = c.srcHost, .device = c.srcDevice, .array = c.srcArray, .pitch = c.srcPitch};
  const struct tsr_shape shape = {.width_bytes = c.WidthInBytes, .height = c.Height, .depth = 1};
  return copy(&to, &from, shape, stream, now);
}

CUresult tsr_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) { return copy_2d(pCopy, NULL, true); }

CUresult tsr_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) {
  return copy_2d(pCopy, NULL, true);
}

CUresult tsr_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
  return copy_2d(pCopy, hStream, false);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *given, CUstream stream, bool now) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D c = *given;
  const struct described to = {
      .x = c.dstXInBytes, .y = c.dstY, .z = c.dstZ, .lod = c.dstLOD, .type = c.dstMemoryType,
      .host = c.dstHost, .device = c.dstDevice, .array = c.dstArray, .pitch = c.dstPitch, .height = c.dstHeight};
  const struct described from = {
      .x = c.srcXInBytes, .y = c.srcY, .z = c.srcZ, .lod = c.srcLOD, .type = c.srcMemoryType,
      .host = c.srcHost, .device = c.srcDevice, .array = c.srcArray, .pitch = c.srcPitch, .height = c.srcHeight};
  const struct tsr_shape shape = {
      .width_bytes = c.WidthInBytes, .height = c.Height, .depth = c.Depth};
  return copy(&to, &from, shape, stream, now);
}

CUresult tsr_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) { return copy_3d(pCopy, NULL, true); }

CUresult tsr_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
  return copy_3d(pCopy, hStream, false);
}

static bool is_on_device(unsigned type) {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

/* The addresses determine the contexts; the handles of sides that are device memory are checked. */
static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *given, CUstream stream, bool now) {
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D_PEER c = *given;
  if ((is_on_device(c.srcMemoryType) && !TSR_FIND(tsr_context, TSR_CONTEXT, c.srcContext)) ||
      (is_on_device(c.dstMemoryType) && !TSR_FIND(tsr_context, TSR_CONTEXT, c.dstContext)))
    return CUDA_ERROR_INVALID_CONTEXT;
  const struct described to = {
      .x = c.dstXInBytes, .y = c.dstY, .z = c.dstZ, .lod = c.dstLOD, .type = c.dstMemoryType,
      .host = c.dstHost, .device = c.dstDevice, .array = c.dstArray, .pitch = c.dstPitch, .height = c.dstHeight};
  const struct described from = {
      .x = c.srcXInBytes, .y = c.srcY, .z = c.srcZ, .lod = c.srcLOD, .type = c.srcMemoryType,
      .host = c.srcHost, .device = c.srcDevice, .array = c.srcArray, .pitch = c.srcPitch, .height = c.srcHeight};
  const struct tsr_shape shape = {
      .width_bytes = c.WidthInBytes, .height = c.Height, .depth = c.Depth};
  return copy(&to, &from, shape, stream, now);
}

CUresult tsr_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy) {
  return copy_3d_peer(pCopy, NULL, true);
}

CUresult tsr_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream) {
  return copy_3d_peer(pCopy, hStream, false);
}
