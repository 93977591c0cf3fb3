/* Descriptors of tensors: type, extents and strides. */
#include "api.h"
#include "objects.h"

enum { TENSOR = 2, MAX_DIMENSIONS = 8, LAST_TYPE = 18, LAYOUT_BY_CHANNEL = 0, LAYOUT_CHANNEL_LAST = 1 };

struct tsr_tensor {
  int type, dimensions;
  int extent[MAX_DIMENSIONS], stride[MAX_DIMENSIONS];
};

cudnnStatus_t tsr_cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensorDesc) {
  if (!tensorDesc) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  *tensorDesc = tsr_object_new(TENSOR, sizeof(struct tsr_tensor));
  return *tensorDesc ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t tsr_cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensorDesc) {
  return tsr_object_free(tensorDesc, TENSOR) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t tsr_cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc, int dataType,
                                             int nbDims, const int *dimA, const int *strideA) {
  struct tsr_tensor *tensor = tsr_object_find(tensorDesc, TENSOR);
  if (!tensor || dataType < 0 || dataType > LAST_TYPE) return CUDNN_STATUS_BAD_PARAM;
  if (!dimA || !strideA) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (nbDims > MAX_DIMENSIONS) return CUDNN_STATUS_NOT_SUPPORTED;
  struct tsr_tensor wanted = {.type = dataType, .dimensions = nbDims};
  for (int i = 0; i < nbDims; ++i) {
    if (dimA[i] <= 0) return CUDNN_STATUS_BAD_PARAM;
    wanted.extent[i] = dimA[i];
    wanted.stride[i] = strideA[i];
  }
  if (nbDims < 1) return CUDNN_STATUS_BAD_PARAM;
  *tensor = wanted;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t tsr_cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensorDesc, int format,
                                             int dataType, int n, int c, int h, int w) {
  const int extents[] = {n, c, h, w};
  int by_channel[] = {0, 0, w, 1}, channel_last[] = {0, 1, 0, c};
  if (__builtin_mul_overflow(h, w, &by_channel[1]) ||
      __builtin_mul_overflow(by_channel[1], c, &by_channel[0]) ||
      __builtin_mul_overflow(w, c, &channel_last[2]))
    return CUDNN_STATUS_NOT_SUPPORTED;
  channel_last[0] = by_channel[0];
  if (format != LAYOUT_BY_CHANNEL && format != LAYOUT_CHANNEL_LAST)
    return format == 2 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_BAD_PARAM;
  return tsr_cudnnSetTensorNdDescriptor(tensorDesc, dataType, 4, extents,
                                        format == LAYOUT_BY_CHANNEL ? by_channel : channel_last);
}

cudnnStatus_t tsr_cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc, int nbDimsRequested,
                                             int *dataType, int *nbDims, int *dimA, int *strideA) {
  const struct tsr_tensor *tensor = tsr_object_find(tensorDesc, TENSOR);
  if (!tensor || nbDimsRequested < 0) return CUDNN_STATUS_BAD_PARAM;
  if (dataType) *dataType = tensor->type;
  if (nbDims) *nbDims = tensor->dimensions;
  for (int i = 0; i < nbDimsRequested && i < tensor->dimensions; ++i) {
    if (dimA) dimA[i] = tensor->extent[i];
    if (strideA) strideA[i] = tensor->stride[i];
  }
  return CUDNN_STATUS_SUCCESS;
}
