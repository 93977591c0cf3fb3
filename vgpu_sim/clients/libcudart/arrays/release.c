/* Release of arrays and mipmapped arrays. */
#include "api.h"
#include "arrays/array.h"
#include "arrays/array_driver.h"

cudaError_t tsr_cudaFreeArray(cudaArray_t array) {
  return array ? tsr_without_handle(cuArrayDestroy(array)) : cudaSuccess;
}

cudaError_t tsr_cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray) {
  return mipmappedArray ? tsr_without_handle(cuMipmappedArrayDestroy(mipmappedArray)) : cudaSuccess;
}
