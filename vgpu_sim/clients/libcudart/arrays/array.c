/* Arrays and mipmapped arrays: creation and queries. */
#include "arrays/array.h"

#include "api.h"
#include "arrays/array_driver.h"
#include "arrays/channel.h"

static cudaError_t find(cudaArray_const_t array, struct CUDA_ARRAY3D_DESCRIPTOR *found) {
  return tsr_without_handle(cuArray3DGetDescriptor_v2(found, array));
}

static size_t element_bytes_of(const struct CUDA_ARRAY3D_DESCRIPTOR *array) {
  return (size_t)tsr_channels_of(array->format, 1).x / 8 * array->channels;
}

cudaError_t tsr_array_sizes(cudaArray_const_t array, size_t *element_bytes, size_t *row_bytes) {
  struct CUDA_ARRAY3D_DESCRIPTOR found;
  const cudaError_t result = find(array, &found);
  if (result != cudaSuccess) return result;
  *element_bytes = element_bytes_of(&found);
  *row_bytes = *element_bytes * found.width;
  return cudaSuccess;
}

cudaError_t tsr_array_rest(cudaArray_const_t array, size_t x_bytes, size_t y,
                           size_t *element_bytes, size_t *rest_bytes) {
  struct CUDA_ARRAY3D_DESCRIPTOR found;
  const cudaError_t result = find(array, &found);
  if (result != cudaSuccess) return result;
  const size_t rows = found.height ? found.height : 1;
  *element_bytes = element_bytes_of(&found);
  const size_t row_bytes = *element_bytes * found.width;
  if (x_bytes >= row_bytes || y >= rows) return cudaErrorInvalidValue;
  *rest_bytes = (rows - y) * row_bytes - x_bytes;
  return cudaSuccess;
}

static cudaError_t describe(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                            unsigned int flags, struct CUDA_ARRAY3D_DESCRIPTOR *out) {
  if (!desc) return cudaErrorInvalidValue;
  *out = (struct CUDA_ARRAY3D_DESCRIPTOR){
      .width = extent.width, .height = extent.height, .depth = extent.depth, .flags = flags};
  return tsr_format_of(desc, &out->format, &out->channels);
}

cudaError_t tsr_cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                                  struct cudaExtent extent, unsigned int flags) {
  struct CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (!array) return cudaErrorInvalidValue;
  const cudaError_t result = describe(desc, extent, flags, &descriptor);
  return result == cudaSuccess ? cuArray3DCreate_v2(array, &descriptor) : result;
}

cudaError_t tsr_cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                                size_t width, size_t height, unsigned int flags) {
  return tsr_cudaMalloc3DArray(array, desc, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t tsr_cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                         const struct cudaChannelFormatDesc *desc,
                                         struct cudaExtent extent, unsigned int numLevels,
                                         unsigned int flags) {
  struct CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (!mipmappedArray) return cudaErrorInvalidValue;
  const cudaError_t result = describe(desc, extent, flags, &descriptor);
  if (result != cudaSuccess) return result;
  return cuMipmappedArrayCreate(mipmappedArray, &descriptor, numLevels);
}

/* As documented, each result is optional. */
cudaError_t tsr_cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
                                 unsigned int *flags, cudaArray_t array) {
  struct CUDA_ARRAY3D_DESCRIPTOR found;
  const cudaError_t result = find(array, &found);
  if (result != cudaSuccess) return result;
  if (desc) *desc = tsr_channels_of(found.format, found.channels);
  if (extent) *extent = (struct cudaExtent){found.width, found.height, found.depth};
  if (flags) *flags = found.flags;
  return cudaSuccess;
}

cudaError_t tsr_cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array) {
  if (!desc) return cudaErrorInvalidValue;
  return tsr_cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}

cudaError_t tsr_cudaDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements,
                                                     const struct cudaChannelFormatDesc *fmtDesc,
                                                     int device) {
  int format;
  unsigned int count;
  if (!maxWidthInElements || !fmtDesc) return cudaErrorInvalidValue;
  const cudaError_t result = tsr_format_of(fmtDesc, &format, &count);
  if (result != cudaSuccess) return result;
  return cuDeviceGetTexture1DLinearMaxWidth(maxWidthInElements, format, count, device);
}
