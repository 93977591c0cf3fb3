/* cuMemcpyAtoA, AtoD, AtoH, DtoA and HtoA: copies between consecutive bytes of one-dimensional
 * arrays, or of a row of other arrays, and memory. */
#include "api.h"
#include "copies/copy_shape.h"

/* One row of an array, from an offset in bytes on; offsets beyond the first row continue in the next
 * ones, as far as a copy stays within one row. */
static CUresult row_of(CUarray array, uint64_t offset, uint64_t bytes, struct tsr_side *side) {
  struct tsr_array_facts facts;
  if (!tsr_array_read(array, &facts)) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_layout *layout = &facts.layout;
  if (offset > layout->bytes || bytes > layout->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_shape shape = {.width_bytes = bytes, .height = 1, .depth = 1};
  const uint64_t at[3] = {offset % layout->row_bytes,
                          offset / layout->row_bytes % layout->height,
                          offset / layout->slice_bytes};
  *side = (struct tsr_side){0};
  return bytes == 0 ? CUDA_SUCCESS : tsr_array_side(array, at, &shape, side);
}

/* Check, as documented, that a copy between an array and device memory or another array is of whole
 * elements, and that an address is a multiple of an element's size. */
static CUresult check_elements(CUarray array, uint64_t address, uint64_t bytes) {
  struct tsr_array_facts facts;
  if (!tsr_array_read(array, &facts)) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t element = facts.layout.element.bytes;
  return address % element || bytes % element ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult check_equal_elements(CUarray array, CUarray other) {
  struct tsr_array_facts facts, others;
  if (!tsr_array_read(array, &facts) || !tsr_array_read(other, &others) ||
      facts.layout.element.bytes != others.layout.element.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static struct tsr_side line(tsr_locator *locate, uint64_t address, uint64_t bytes) {
  return (struct tsr_side){
      .locate = locate, .address = address, .pitch_bytes = bytes, .layer_bytes = bytes};
}

static CUresult copy_to(CUarray array, uint64_t offset, tsr_locator *locate, uint64_t source,
                        uint64_t bytes, CUstream stream, bool now) {
  struct tsr_side to;
  const struct tsr_side from = line(locate, source, bytes);
  const struct tsr_shape shape = {.width_bytes = bytes, .height = 1, .depth = 1};
  const CUresult result = row_of(array, offset, bytes, &to);
  if (result != CUDA_SUCCESS) return result;
  return tsr_copy_shape(stream, &to, &from, &shape, now);
}

static CUresult copy_from(tsr_locator *locate, uint64_t target, CUarray array, uint64_t offset,
                          uint64_t bytes, CUstream stream, bool now) {
  struct tsr_side from;
  const struct tsr_side to = line(locate, target, bytes);
  const struct tsr_shape shape = {.width_bytes = bytes, .height = 1, .depth = 1};
  const CUresult result = row_of(array, offset, bytes, &from);
  if (result != CUDA_SUCCESS) return result;
  return tsr_copy_shape(stream, &to, &from, &shape, now);
}

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

CUresult tsr_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                             size_t ByteCount) {
  return copy_to(dstArray, dstOffset, tsr_locate_host, ADDRESS(srcHost), ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                                  size_t ByteCount, CUstream hStream) {
  return copy_to(dstArray, dstOffset, tsr_locate_host, ADDRESS(srcHost), ByteCount, hStream, false);
}

CUresult tsr_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                             size_t ByteCount) {
  const CUresult result = check_elements(dstArray, 0, ByteCount);
  if (result != CUDA_SUCCESS) return result;
  return copy_to(dstArray, dstOffset, tsr_locate_device, srcDevice, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
  return copy_from(tsr_locate_host, ADDRESS(dstHost), srcArray, srcOffset, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
                                  size_t ByteCount, CUstream hStream) {
  return copy_from(tsr_locate_host, ADDRESS(dstHost), srcArray, srcOffset, ByteCount, hStream,
                   false);
}

CUresult tsr_cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                             size_t ByteCount) {
  const CUresult result = check_elements(srcArray, dstDevice, ByteCount);
  if (result != CUDA_SUCCESS) return result;
  return copy_from(tsr_locate_device, dstDevice, srcArray, srcOffset, ByteCount, NULL, true);
}

CUresult tsr_cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
                             size_t srcOffset, size_t ByteCount) {
  struct tsr_side to, from;
  const struct tsr_shape shape = {.width_bytes = ByteCount, .height = 1, .depth = 1};
  CUresult result = check_equal_elements(dstArray, srcArray);
  if (result == CUDA_SUCCESS) result = check_elements(dstArray, 0, ByteCount);
  if (result == CUDA_SUCCESS) result = row_of(dstArray, dstOffset, ByteCount, &to);
  if (result == CUDA_SUCCESS) result = row_of(srcArray, srcOffset, ByteCount, &from);
  if (result != CUDA_SUCCESS) return result;
  return tsr_copy_shape(NULL, &to, &from, &shape, true);
}
