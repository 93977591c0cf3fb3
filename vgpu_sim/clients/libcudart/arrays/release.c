/* Release of arrays and mipmapped arrays. */
#include "api.h"
#include "arrays/array_driver.h"

/* The driver's code for an invalid handle is not among those that these functions return. */
static cudaError_t without_handle(int result) {
  return result == cudaErrorInvalidResourceHandle ? cudaErrorInvalidValue : (cudaError_t)result;
}

cudaError_t tsr_cudaFreeArray(cudaArray_t array) {
  return array ? without_handle(cuArrayDestroy(array)) : cudaSuccess;
}

cudaError_t tsr_cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray) {
  return mipmappedArray ? without_handle(cuMipmappedArrayDestroy(mipmappedArray)) : cudaSuccess;
}
