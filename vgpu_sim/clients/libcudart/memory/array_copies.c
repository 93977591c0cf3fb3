/* Copies between rectangles or consecutive bytes of arrays and memory. */
#include <stdbool.h>

#include "api.h"
#include "arrays/array.h"
#include "memory/copy.h"
#include "memory/shapes.h"

/* One side of a copy: an array from a position on, or memory. */
struct side {
  cudaArray_const_t array; /* NULL: memory */
  size_t x_bytes, y;
  const void *memory;
  size_t pitch;
};

static struct side in_array(cudaArray_const_t array, size_t x_bytes, size_t y) {
  return (struct side){.array = array, .x_bytes = x_bytes, .y = y};
}

static struct side in_memory(const void *memory, size_t pitch) {
  return (struct side){.memory = memory, .pitch = pitch};
}

static cudaError_t copy_rectangle(const struct side *to, const struct side *from, size_t width,
                                  size_t height, int kind, enum tsr_order order,
                                  cudaStream_t stream) {
  struct CUDA_MEMCPY2D copy = {
      .source_x = from->x_bytes,
      .source_y = from->y,
      .source_host = from->memory,
      .source_device = from->memory,
      .source_array = from->array,
      .source_pitch = from->pitch,
      .target_x = to->x_bytes,
      .target_y = to->y,
      .target_host = (void *)(uintptr_t)to->memory,
      .target_device = (void *)(uintptr_t)to->memory,
      .target_array = (void *)(uintptr_t)to->array,
      .target_pitch = to->pitch,
      .width = width,
      .height = height,
  };
  const cudaError_t result =
      tsr_copy_types(kind, from->array != NULL, to->array != NULL, &copy.source_type, &copy.target_type);
  if (result != cudaSuccess || width == 0 || height == 0) return result;
  if (order == TSR_WAIT) return cuMemcpy2DUnaligned_v2(&copy);
  if (order == TSR_WAIT_PER_THREAD) stream = cudaStreamPerThread;
  return tsr_settle(cuMemcpy2DAsync_v2(&copy, stream), order);
}

/* Return the bytes from a position to the end of its row; in memory there are no rows. */
static cudaError_t rest_of_row(const struct side *side, size_t *bytes) {
  size_t element, row;
  *bytes = SIZE_MAX;
  if (!side->array) return cudaSuccess;
  const cudaError_t result = tsr_array_sizes(side->array, &element, &row);
  if (result != cudaSuccess) return result;
  if (side->x_bytes >= row) return cudaErrorInvalidValue;
  *bytes = row - side->x_bytes;
  return cudaSuccess;
}

static void advance(struct side *side, size_t bytes, bool row_ends) {
  if (!side->array)
    side->memory = (const char *)side->memory + bytes;
  else if (row_ends) {
    side->x_bytes = 0;
    side->y++;
  } else
    side->x_bytes += bytes;
}

/* Check a side of a copy of consecutive bytes; memory has elements of one byte. */
static cudaError_t check_side(const struct side *side, size_t count, size_t *element) {
  size_t rest;
  *element = 1;
  if (!side->array) return cudaSuccess;
  const cudaError_t result = tsr_array_rest(side->array, side->x_bytes, side->y, element, &rest);
  if (result != cudaSuccess) return result;
  return count > rest || side->x_bytes % *element ? cudaErrorInvalidValue : cudaSuccess;
}

/* Check both sides before anything is copied, because rows are copied one by one. */
static cudaError_t check_sides(const struct side *to, const struct side *from, size_t count) {
  size_t element, other;
  cudaError_t result = check_side(to, count, &element);
  if (result == cudaSuccess) result = check_side(from, count, &other);
  if (result != cudaSuccess) return result;
  return to->array && from->array && element != other ? cudaErrorInvalidValue : cudaSuccess;
}

/* Copy consecutive bytes, which continue in the next rows of an array. */
static cudaError_t copy_bytes(struct side to, struct side from, size_t count, int kind,
                              enum tsr_order order, cudaStream_t stream) {
  cudaError_t result = count ? check_sides(&to, &from, count) : cudaSuccess;
  while (count && result == cudaSuccess) {
    size_t to_rest, from_rest, part = count;
    result = rest_of_row(&to, &to_rest);
    if (result == cudaSuccess) result = rest_of_row(&from, &from_rest);
    if (result != cudaSuccess) return result;
    if (part > to_rest) part = to_rest;
    if (part > from_rest) part = from_rest;
    if (!to.array) to.pitch = part;
    if (!from.array) from.pitch = part;
    result = copy_rectangle(&to, &from, part, 1, kind, order, stream);
    advance(&to, part, part == to_rest);
    advance(&from, part, part == from_rest);
    count -= part;
  }
  return result;
}

static cudaError_t rectangle_to(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
                                size_t width, size_t height, int kind, enum tsr_order order,
                                cudaStream_t stream) {
  const struct side to = in_array(dst, x, y), from = in_memory(src, pitch);
  if (!dst) return cudaErrorInvalidValue;
  if (height && width > pitch) return 12; /* cudaErrorInvalidPitchValue */
  return copy_rectangle(&to, &from, width, height, kind, order, stream);
}

static cudaError_t rectangle_from(void *dst, size_t pitch, cudaArray_const_t src, size_t x,
                                  size_t y, size_t width, size_t height, int kind,
                                  enum tsr_order order, cudaStream_t stream) {
  const struct side to = in_memory(dst, pitch), from = in_array(src, x, y);
  if (!src) return cudaErrorInvalidValue;
  if (height && width > pitch) return 12; /* cudaErrorInvalidPitchValue */
  return copy_rectangle(&to, &from, width, height, kind, order, stream);
}

static cudaError_t rectangle_between(cudaArray_t dst, size_t dst_x, size_t dst_y,
                                     cudaArray_const_t src, size_t src_x, size_t src_y,
                                     size_t width, size_t height, int kind, enum tsr_order order) {
  const struct side to = in_array(dst, dst_x, dst_y), from = in_array(src, src_x, src_y);
  if (!dst || !src) return cudaErrorInvalidValue;
  return copy_rectangle(&to, &from, width, height, kind, order, NULL);
}

static cudaError_t bytes_to(cudaArray_t dst, size_t x, size_t y, const void *src, size_t count,
                            int kind, enum tsr_order order, cudaStream_t stream) {
  if (!dst) return cudaErrorInvalidValue;
  return copy_bytes(in_array(dst, x, y), in_memory(src, 0), count, kind, order, stream);
}

static cudaError_t bytes_from(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t count,
                              int kind, enum tsr_order order, cudaStream_t stream) {
  if (!src) return cudaErrorInvalidValue;
  return copy_bytes(in_memory(dst, 0), in_array(src, x, y), count, kind, order, stream);
}

static cudaError_t bytes_between(cudaArray_t dst, size_t dst_x, size_t dst_y, cudaArray_const_t src,
                                 size_t src_x, size_t src_y, size_t count, int kind,
                                 enum tsr_order order) {
  if (!dst || !src) return cudaErrorInvalidValue;
  return copy_bytes(in_array(dst, dst_x, dst_y), in_array(src, src_x, src_y), count, kind, order,
                    NULL);
}

/* The functions: one for the legacy default stream and one for the thread's. */
#define IN_BOTH_STREAMS(name, parameters, call, ...)                                     \
  cudaError_t tsr_##name parameters { return call(__VA_ARGS__, TSR_WAIT, NULL); }        \
  cudaError_t tsr_##name##_ptds parameters {                                             \
    return call(__VA_ARGS__, TSR_WAIT_PER_THREAD, NULL);                                 \
  }
#define BETWEEN_IN_BOTH_STREAMS(name, parameters, call, ...)                             \
  cudaError_t tsr_##name parameters { return call(__VA_ARGS__, TSR_WAIT); }              \
  cudaError_t tsr_##name##_ptds parameters { return call(__VA_ARGS__, TSR_WAIT_PER_THREAD); }

IN_BOTH_STREAMS(cudaMemcpy2DToArray,
                (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
                 size_t width, size_t height, int kind),
                rectangle_to, dst, wOffset, hOffset, src, spitch, width, height, kind)
IN_BOTH_STREAMS(cudaMemcpy2DFromArray,
                (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
                 size_t width, size_t height, int kind),
                rectangle_from, dst, dpitch, src, wOffset, hOffset, width, height, kind)
IN_BOTH_STREAMS(cudaMemcpyToArray,
                (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
                 int kind),
                bytes_to, dst, wOffset, hOffset, src, count, kind)
IN_BOTH_STREAMS(cudaMemcpyFromArray,
                (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                 int kind),
                bytes_from, dst, src, wOffset, hOffset, count, kind)
BETWEEN_IN_BOTH_STREAMS(cudaMemcpy2DArrayToArray,
                        (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                         cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc, size_t width,
                         size_t height, int kind),
                        rectangle_between, dst, wOffsetDst, hOffsetDst, src, wOffsetSrc,
                        hOffsetSrc, width, height, kind)
BETWEEN_IN_BOTH_STREAMS(cudaMemcpyArrayToArray,
                        (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
                         cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc, size_t count,
                         int kind),
                        bytes_between, dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc,
                        count, kind)

cudaError_t tsr_cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset,
                                         const void *src, size_t spitch, size_t width,
                                         size_t height, int kind, cudaStream_t stream) {
  return rectangle_to(dst, wOffset, hOffset, src, spitch, width, height, kind, TSR_NO_WAIT, stream);
}

cudaError_t tsr_cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src,
                                           size_t wOffset, size_t hOffset, size_t width,
                                           size_t height, int kind, cudaStream_t stream) {
  return rectangle_from(dst, dpitch, src, wOffset, hOffset, width, height, kind, TSR_NO_WAIT,
                        stream);
}

cudaError_t tsr_cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset,
                                       const void *src, size_t count, int kind,
                                       cudaStream_t stream) {
  return bytes_to(dst, wOffset, hOffset, src, count, kind, TSR_NO_WAIT, stream);
}

cudaError_t tsr_cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset,
                                         size_t hOffset, size_t count, int kind,
                                         cudaStream_t stream) {
  return bytes_from(dst, src, wOffset, hOffset, count, kind, TSR_NO_WAIT, stream);
}
