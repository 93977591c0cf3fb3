/* Batches of copies. They are enqueued one after the other; the order that the attributes permit is
 * never required. */
#include "api.h"
#include "base/refuse.h"
#include "copies/copy_shape.h"

static bool is_legacy(CUstream stream) { return !stream || stream == CU_STREAM_LEGACY; }

static bool is_order(unsigned order) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static struct tsr_side line(uint64_t address, uint64_t bytes) {
  return (struct tsr_side){.locate = tsr_locate_any,
                           .address = address,
                           .pitch_bytes = bytes,
                           .layer_bytes = bytes};
}

/* Copy one element; a source that may be changed after the call has been read when it returns. */
static CUresult copy_line(CUdeviceptr to, CUdeviceptr from, size_t bytes, unsigned order,
                          CUstream stream) {
  const struct tsr_side target = line(to, bytes), source = line(from, bytes);
  const struct tsr_shape shape = {.width_bytes = bytes, .height = 1, .depth = 1};
  return tsr_copy_shape(stream, &target, &source, &shape,
                        order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
}

CUresult tsr_cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                   size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                   size_t numAttrs, CUstream hStream) {
  if (!dsts || !srcs || !sizes || !attrs || !attrsIdxs || count == 0 || numAttrs == 0 ||
      numAttrs > count || attrsIdxs[0] != 0 || is_legacy(hStream))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < numAttrs; i++)
    if (!is_order(attrs[i].srcAccessOrder) || attrs[i].flags > 1 || attrsIdxs[i] >= count ||
        (i > 0 && attrsIdxs[i] <= attrsIdxs[i - 1]))
      return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0, attribute = 0; i < count; i++) {
    while (attribute + 1 < numAttrs && attrsIdxs[attribute + 1] <= i) attribute++;
    const CUresult result =
        copy_line(dsts[i], srcs[i], sizes[i], attrs[attribute].srcAccessOrder, hStream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

/* The index of a failed element is optional; SIZE_MAX says that it is not known which. */
CUresult tsr_cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                                CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                                size_t *failIdx, CUstream hStream) {
  const CUresult result =
      tsr_cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
  if (result != CUDA_SUCCESS && failIdx) *failIdx = SIZE_MAX;
  return result;
}

static CUresult to_side(const CUmemcpy3DOperand *operand, const CUextent3D *extent,
                        struct tsr_side *side) {
  if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
    TSR_REFUSE("a copy from or to a CUDA array, with attributes or in a batch");
  if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER) return CUDA_ERROR_INVALID_VALUE;
  /* 0: as long as the copied region */
  const size_t row = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : extent->width;
  const size_t rows = operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->height;
  *side = (struct tsr_side){
      .locate = tsr_locate_any, .address = operand->op.ptr.ptr, .pitch_bytes = row};
  if (row < extent->width || rows < extent->height ||
      __builtin_mul_overflow(row, rows, &side->layer_bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult copy_region(const CUDA_MEMCPY3D_BATCH_OP *given, CUstream stream) {
  const CUDA_MEMCPY3D_BATCH_OP op = *given;
  struct tsr_side to, from;
  if (!is_order(op.srcAccessOrder) || op.flags > 1) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = to_side(&op.dst, &op.extent, &to);
  if (result == CUDA_SUCCESS) result = to_side(&op.src, &op.extent, &from);
  if (result != CUDA_SUCCESS) return result;
  const struct tsr_shape shape = {
      .width_bytes = op.extent.width, .height = op.extent.height, .depth = op.extent.depth};
  return tsr_copy_shape(stream, &to, &from, &shape,
                        op.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
}

CUresult tsr_cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                     unsigned long long flags, CUstream hStream) {
  if (!opList || numOps == 0 || flags || is_legacy(hStream)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < numOps; i++) {
    const CUresult result = copy_region(&opList[i], hStream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
                                  unsigned long long flags, CUstream hStream) {
  const CUresult result = tsr_cuMemcpy3DBatchAsync_v2(numOps, opList, flags, hStream);
  if (result != CUDA_SUCCESS && failIdx) *failIdx = SIZE_MAX;
  return result;
}

CUresult tsr_cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                         CUmemcpyAttributes *attr, CUstream hStream) {
  if (!attr) return CUDA_ERROR_INVALID_VALUE;
  const CUmemcpyAttributes given = *attr;
  if (!is_order(given.srcAccessOrder) || given.flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return copy_line(dst, src, size, given.srcAccessOrder, hStream);
}

CUresult tsr_cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                           CUstream hStream) {
  return op && !flags ? copy_region(op, hStream) : CUDA_ERROR_INVALID_VALUE;
}
