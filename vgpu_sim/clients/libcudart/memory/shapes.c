/* Copies of rectangles and boxes, and memsets of boxes. */
#include "memory/shapes.h"

#include <stdbool.h>

#include "api.h"
#include "arrays/array.h"
#include "memory/copy.h"
#include "state.h"

/* The driver's memory types of a copy's source and target. */
static bool types_of(int kind, int *source, int *target) {
  static const int types[][2] = {
      [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
      [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
      [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
      [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
      [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
  };
  if (kind < 0 || kind > cudaMemcpyDefault) return false;
  *source = types[kind][0];
  *target = types[kind][1];
  return true;
}

/* The same for a side that is an array, whatever the kind implies of it. */
static cudaError_t types_with_arrays(int kind, bool source_is_array, bool target_is_array,
                                     int *source, int *target) {
  if (!types_of(kind, source, target)) return cudaErrorInvalidMemcpyDirection;
  if (source_is_array) *source = CU_MEMORYTYPE_ARRAY;
  if (target_is_array) *target = CU_MEMORYTYPE_ARRAY;
  return cudaSuccess;
}

cudaError_t tsr_copy_types(int kind, bool source_is_array, bool target_is_array, int *source,
                           int *target) {
  if (!types_of(kind, source, target) || (source_is_array && *source == CU_MEMORYTYPE_HOST) ||
      (target_is_array && *target == CU_MEMORYTYPE_HOST))
    return cudaErrorInvalidMemcpyDirection;
  return types_with_arrays(kind, source_is_array, target_is_array, source, target);
}

static cudaError_t copy_rectangle(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, int kind, enum tsr_order order,
                                  cudaStream_t stream) {
  struct CUDA_MEMCPY2D copy = {
      .source_host = src, .source_device = src, .source_pitch = spitch,
      .target_host = dst, .target_device = dst, .target_pitch = dpitch,
      .width = width,     .height = height,
  };
  if (!types_of(kind, &copy.source_type, &copy.target_type)) return cudaErrorInvalidMemcpyDirection;
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > dpitch || width > spitch) return 12; /* cudaErrorInvalidPitchValue */
  if (order == TSR_WAIT) return cuMemcpy2DUnaligned_v2(&copy);
  if (order == TSR_WAIT_PER_THREAD) stream = cudaStreamPerThread;
  return tsr_settle(cuMemcpy2DAsync_v2(&copy, stream), order);
}

cudaError_t tsr_cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                             size_t height, int kind) {
  return copy_rectangle(dst, dpitch, src, spitch, width, height, kind, TSR_WAIT, NULL);
}

cudaError_t tsr_cudaMemcpy2D_ptds(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, int kind) {
  return copy_rectangle(dst, dpitch, src, spitch, width, height, kind, TSR_WAIT_PER_THREAD, NULL);
}

cudaError_t tsr_cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, int kind, cudaStream_t stream) {
  return copy_rectangle(dst, dpitch, src, spitch, width, height, kind, TSR_NO_WAIT, stream);
}

/* Find the bytes of an element of the arrays of a copy; 1: there are none. */
static cudaError_t element_of(cudaArray_const_t source, cudaArray_const_t target, size_t *bytes) {
  size_t row, other;
  *bytes = 1;
  if (!source && !target) return cudaSuccess;
  cudaError_t result = tsr_array_sizes(source ? source : target, bytes, &row);
  if (result != cudaSuccess || !source || !target) return result;
  result = tsr_array_sizes(target, &other, &row);
  if (result != cudaSuccess) return result;
  return other == *bytes ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t tsr_box_of(const struct cudaMemcpy3DParms *copy, struct CUDA_MEMCPY3D *out) {
  size_t element, width, source_x = 0, target_x = 0;
  if (!copy) return cudaErrorInvalidValue;
  if ((copy->srcArray && copy->srcPtr.ptr) || (copy->dstArray && copy->dstPtr.ptr))
    return cudaErrorInvalidValue;
  const cudaError_t found = element_of(copy->srcArray, copy->dstArray, &element);
  if (found != cudaSuccess) return found;
  if (__builtin_mul_overflow(copy->extent.width, element, &width) ||
      __builtin_mul_overflow(copy->srcPos.x, copy->srcArray ? element : 1, &source_x) ||
      __builtin_mul_overflow(copy->dstPos.x, copy->dstArray ? element : 1, &target_x))
    return cudaErrorInvalidValue;
  *out = (struct CUDA_MEMCPY3D){
      .source_x = source_x,
      .source_y = copy->srcPos.y,
      .source_z = copy->srcPos.z,
      .source_host = copy->srcPtr.ptr,
      .source_device = copy->srcPtr.ptr,
      .source_array = copy->srcArray,
      .source_pitch = copy->srcPtr.pitch,
      .source_height = copy->srcPtr.ysize,
      .target_x = target_x,
      .target_y = copy->dstPos.y,
      .target_z = copy->dstPos.z,
      .target_host = copy->dstPtr.ptr,
      .target_device = copy->dstPtr.ptr,
      .target_array = copy->dstArray,
      .target_pitch = copy->dstPtr.pitch,
      .target_height = copy->dstPtr.ysize,
      .width = width,
      .height = copy->extent.height,
      .depth = copy->extent.depth,
  };
  /* As documented, a kind that implies that an array is on the host is corrected. */
  return types_with_arrays(copy->kind, copy->srcArray != NULL, copy->dstArray != NULL,
                           &out->source_type, &out->target_type);
}

static int kind_of(int source, int target) {
  if (source == CU_MEMORYTYPE_UNIFIED || target == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  const bool from_host = source == CU_MEMORYTYPE_HOST, to_host = target == CU_MEMORYTYPE_HOST;
  if (from_host) return to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

void tsr_box_to(const struct CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *out) {
  const bool from_host = copy->source_type == CU_MEMORYTYPE_HOST;
  const bool to_host = copy->target_type == CU_MEMORYTYPE_HOST;
  const bool from_array = copy->source_type == CU_MEMORYTYPE_ARRAY;
  const bool to_array = copy->target_type == CU_MEMORYTYPE_ARRAY;
  cudaArray_t source_array = from_array ? (cudaArray_t)(uintptr_t)copy->source_array : NULL;
  cudaArray_t target_array = to_array ? (cudaArray_t)copy->target_array : NULL;
  void *source = (void *)(uintptr_t)(from_host ? copy->source_host : copy->source_device);
  void *target = to_host ? copy->target_host : copy->target_device;
  size_t element;
  /* Of arrays that are gone, all is in bytes. */
  if (element_of(source_array, target_array, &element) != cudaSuccess || element == 0) element = 1;
  *out = (struct cudaMemcpy3DParms){
      .srcArray = source_array,
      .srcPos = {copy->source_x / (from_array ? element : 1), copy->source_y, copy->source_z},
      .dstArray = target_array,
      .dstPos = {copy->target_x / (to_array ? element : 1), copy->target_y, copy->target_z},
      .extent = {copy->width / element, copy->height, copy->depth},
      .kind = kind_of(copy->source_type, copy->target_type),
  };
  if (!from_array)
    out->srcPtr = (struct cudaPitchedPtr){source, copy->source_pitch, copy->source_pitch,
                                          copy->source_height};
  if (!to_array)
    out->dstPtr = (struct cudaPitchedPtr){target, copy->target_pitch, copy->target_pitch,
                                          copy->target_height};
}

static bool is_empty(struct cudaExtent extent) {
  return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

static cudaError_t copy_box(const struct cudaMemcpy3DParms *p, enum tsr_order order,
                            cudaStream_t stream) {
  struct CUDA_MEMCPY3D copy;
  const cudaError_t result = tsr_box_of(p, &copy);
  if (result != cudaSuccess || is_empty(p->extent)) return result;
  if (order == TSR_WAIT) return cuMemcpy3D_v2(&copy);
  if (order == TSR_WAIT_PER_THREAD) stream = cudaStreamPerThread;
  return tsr_settle(cuMemcpy3DAsync_v2(&copy, stream), order);
}

cudaError_t tsr_cudaMemcpy3D(const struct cudaMemcpy3DParms *p) { return copy_box(p, TSR_WAIT, NULL); }

cudaError_t tsr_cudaMemcpy3D_ptds(const struct cudaMemcpy3DParms *p) {
  return copy_box(p, TSR_WAIT_PER_THREAD, NULL);
}

cudaError_t tsr_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream) {
  return copy_box(p, TSR_NO_WAIT, stream);
}

static cudaError_t peer_box_of(const struct cudaMemcpy3DPeerParms *p, struct CUDA_MEMCPY3D *out) {
  if (!p) return cudaErrorInvalidValue;
  const struct cudaMemcpy3DParms copy = {
      .srcArray = p->srcArray, .srcPos = p->srcPos, .srcPtr = p->srcPtr,
      .dstArray = p->dstArray, .dstPos = p->dstPos, .dstPtr = p->dstPtr,
      .extent = p->extent,     .kind = cudaMemcpyDeviceToDevice,
  };
  CUcontext to, from;
  cudaError_t result = tsr_box_of(&copy, out);
  if (result == cudaSuccess) result = tsr_primary(p->dstDevice, &to);
  if (result == cudaSuccess) result = tsr_primary(p->srcDevice, &from);
  if (result != cudaSuccess) return result;
  out->source_context = from;
  out->target_context = to;
  return cudaSuccess;
}

static cudaError_t copy_peer_box(const struct cudaMemcpy3DPeerParms *p, enum tsr_order order,
                                 cudaStream_t stream) {
  struct CUDA_MEMCPY3D copy;
  const cudaError_t result = peer_box_of(p, &copy);
  if (result != cudaSuccess || is_empty(p->extent)) return result;
  if (order == TSR_WAIT) return cuMemcpy3DPeer(&copy);
  if (order == TSR_WAIT_PER_THREAD) stream = cudaStreamPerThread;
  return tsr_settle(cuMemcpy3DPeerAsync(&copy, stream), order);
}

cudaError_t tsr_cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p) {
  return copy_peer_box(p, TSR_WAIT, NULL);
}

cudaError_t tsr_cudaMemcpy3DPeer_ptds(const struct cudaMemcpy3DPeerParms *p) {
  return copy_peer_box(p, TSR_WAIT_PER_THREAD, NULL);
}

cudaError_t tsr_cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream) {
  return copy_peer_box(p, TSR_NO_WAIT, stream);
}

/* A box is one rectangle for each slice, or one in all if the slices have no rows between them. */
static cudaError_t set_box(struct cudaPitchedPtr at, int value, struct cudaExtent extent,
                           enum tsr_order order, cudaStream_t stream) {
  if (is_empty(extent)) return cudaSuccess;
  size_t slice, rows = extent.height, slices = extent.depth;
  if (__builtin_mul_overflow(at.pitch, at.ysize, &slice) || extent.width > at.pitch ||
      (slices > 1 && extent.height > at.ysize))
    return cudaErrorInvalidValue;
  if (extent.height == at.ysize) {
    if (__builtin_mul_overflow(rows, slices, &rows)) return cudaErrorInvalidValue;
    slices = 1;
  }
  cudaError_t result = cudaSuccess;
  for (size_t i = 0; i < slices && result == cudaSuccess; i++) {
    void *start = (char *)at.ptr + i * slice;
    result = order == TSR_WAIT ? cuMemsetD2D8_v2(start, at.pitch, (unsigned char)value, extent.width, rows)
                               : cuMemsetD2D8Async(start, at.pitch, (unsigned char)value, extent.width,
                                                   rows, stream);
  }
  return result;
}

cudaError_t tsr_cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent) {
  return set_box(pitchedDevPtr, value, extent, TSR_WAIT, NULL);
}

cudaError_t tsr_cudaMemset3D_ptds(struct cudaPitchedPtr pitchedDevPtr, int value,
                                  struct cudaExtent extent) {
  return set_box(pitchedDevPtr, value, extent, TSR_NO_WAIT, cudaStreamPerThread);
}

cudaError_t tsr_cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value,
                                  struct cudaExtent extent, cudaStream_t stream) {
  return set_box(pitchedDevPtr, value, extent, TSR_NO_WAIT, stream);
}
