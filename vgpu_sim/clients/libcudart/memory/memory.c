/* Allocation, and attributes of pointers. */
#include <string.h>

#include "api.h"
#include "driver.h"

cudaError_t tsr_cudaMalloc(void **devPtr, size_t size) {
  if (!devPtr) return cudaErrorInvalidValue;
  if (size == 0) {
    *devPtr = NULL;
    return cudaSuccess;
  }
  return cuMemAlloc_v2(devPtr, size);
}

cudaError_t tsr_cudaFree(void *devPtr) { return devPtr ? cuMemFree_v2(devPtr) : cudaSuccess; }

cudaError_t tsr_cudaFreeHost(void *ptr) { return ptr ? cuMemFreeHost(ptr) : cudaSuccess; }

cudaError_t tsr_cudaHostAlloc(void **pHost, size_t size, unsigned int flags) {
  if (!pHost) return cudaErrorInvalidValue;
  if (size == 0) {
    *pHost = NULL;
    return cudaSuccess;
  }
  return cuMemHostAlloc(pHost, size, flags);
}

cudaError_t tsr_cudaMallocHost(void **ptr, size_t size) { return tsr_cudaHostAlloc(ptr, size, 0); }

/* Rows of all slices follow one another, so that a slice is `height` rows. */
cudaError_t tsr_cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent) {
  if (!pitchedDevPtr) return cudaErrorInvalidValue;
  size_t rows;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return cudaErrorInvalidValue;
  struct cudaPitchedPtr made = {.xsize = extent.width, .ysize = extent.height};
  if (extent.width && rows) {
    const int result = cuMemAllocPitch_v2(&made.ptr, &made.pitch, extent.width, rows, 4);
    if (result != cudaSuccess) return result;
  }
  *pitchedDevPtr = made;
  return cudaSuccess;
}

enum {
  POINTER_MEMORY_TYPE = 2,
  POINTER_DEVICE_POINTER = 3,
  POINTER_HOST_POINTER = 4,
  POINTER_IS_MANAGED = 8,
  POINTER_DEVICE_ORDINAL = 9,
};

cudaError_t tsr_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr) {
  if (!attributes) return cudaErrorInvalidValue;
  struct cudaPointerAttributes read;
  memset(&read, 0, sizeof read);
  read.device = cudaInvalidDeviceId;
  unsigned int type = 0, managed = 0;
  const int result = cuPointerGetAttribute(&type, POINTER_MEMORY_TYPE, ptr);
  if (result != cudaSuccess && result != cudaErrorInvalidValue) return result;
  if (result == cudaSuccess && type) {
    if (cuPointerGetAttribute(&managed, POINTER_IS_MANAGED, ptr) != cudaSuccess) managed = 0;
    read.type = managed ? cudaMemoryTypeManaged : (int)type; /* host and device have the driver's numbers */
    /* A pointer has no counterpart on a side that cannot reach it. */
    if (cuPointerGetAttribute(&read.device, POINTER_DEVICE_ORDINAL, ptr) != cudaSuccess)
      read.device = cudaInvalidDeviceId;
    if (cuPointerGetAttribute(&read.devicePointer, POINTER_DEVICE_POINTER, ptr) != cudaSuccess)
      read.devicePointer = NULL;
    if (cuPointerGetAttribute(&read.hostPointer, POINTER_HOST_POINTER, ptr) != cudaSuccess)
      read.hostPointer = NULL;
  }
  *attributes = read;
  return cudaSuccess;
}
