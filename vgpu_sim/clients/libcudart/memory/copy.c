/* Copies of bytes, to and from pointers and symbols. */
#include "memory/copy.h"

#include "api.h"
#include "code/registry.h"
#include "state.h"

typedef int copy_now(void *, const void *, size_t);
typedef int copy_later(void *, const void *, size_t, cudaStream_t);

static const struct {
  copy_now *now;
  copy_later *later;
} copies[] = {
    [cudaMemcpyHostToHost] = {cuMemcpy, cuMemcpyAsync},
    [cudaMemcpyHostToDevice] = {cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2},
    [cudaMemcpyDeviceToHost] = {cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2},
    [cudaMemcpyDeviceToDevice] = {cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2},
    [cudaMemcpyDefault] = {cuMemcpy, cuMemcpyAsync},
};

cudaError_t tsr_settle(cudaError_t queued, enum tsr_order order) {
  if (queued != cudaSuccess || order != TSR_WAIT_PER_THREAD) return queued;
  return cuStreamSynchronize(cudaStreamPerThread);
}

cudaError_t tsr_copy(void *dst, const void *src, size_t count, int kind, enum tsr_order order,
                     cudaStream_t stream) {
  if (kind < 0 || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (count == 0) return cudaSuccess;
  if (order == TSR_WAIT) return copies[kind].now(dst, src, count);
  if (order == TSR_WAIT_PER_THREAD) stream = cudaStreamPerThread;
  return tsr_settle(copies[kind].later(dst, src, count, stream), order);
}

cudaError_t tsr_cudaMemcpy(void *dst, const void *src, size_t count, int kind) {
  return tsr_copy(dst, src, count, kind, TSR_WAIT, NULL);
}

cudaError_t tsr_cudaMemcpy_ptds(void *dst, const void *src, size_t count, int kind) {
  return tsr_copy(dst, src, count, kind, TSR_WAIT_PER_THREAD, NULL);
}

cudaError_t tsr_cudaMemcpyAsync(void *dst, const void *src, size_t count, int kind,
                                cudaStream_t stream) {
  return tsr_copy(dst, src, count, kind, TSR_NO_WAIT, stream);
}

cudaError_t tsr_cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
                               size_t count) {
  CUcontext to, from;
  cudaError_t result = tsr_primary(dstDevice, &to);
  if (result == cudaSuccess) result = tsr_primary(srcDevice, &from);
  return result == cudaSuccess ? cuMemcpyPeer(dst, to, src, from, count) : result;
}

cudaError_t tsr_cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                    size_t count, cudaStream_t stream) {
  CUcontext to, from;
  cudaError_t result = tsr_primary(dstDevice, &to);
  if (result == cudaSuccess) result = tsr_primary(srcDevice, &from);
  return result == cudaSuccess ? cuMemcpyPeerAsync(dst, to, src, from, count, stream) : result;
}
