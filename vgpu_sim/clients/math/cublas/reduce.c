#include "reduce.h"

enum { POINTER_MODE_HOST = 0 };

extern int cuMemAlloc_v2(uint64_t *address, size_t bytes);
extern int cuMemFree_v2(uint64_t address);
extern int cuMemcpyDtoHAsync_v2(void *target, uint64_t address, size_t bytes, cudaStream_t stream);
extern int cuStreamSynchronize(cudaStream_t stream);

cublasStatus_t tsr_blas_reduce(struct tsr_blas *blas, tsr_reduction *put, const void *what, int type,
                               void *result) {
  const size_t bytes = type == TSR_F64 ? sizeof(double) : sizeof(float);
  uint64_t address;
  if (!tsr_current_enter(&blas->current)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (blas->pointer_mode != POINTER_MODE_HOST) return put(blas, what, type, (uint64_t)(uintptr_t)result);
  if (cuMemAlloc_v2(&address, bytes) != 0) return CUBLAS_STATUS_ALLOC_FAILED;
  cublasStatus_t status = put(blas, what, type, address);
  if (status == CUBLAS_STATUS_SUCCESS && (cuMemcpyDtoHAsync_v2(result, address, bytes, blas->stream) != 0 ||
                                          cuStreamSynchronize(blas->stream) != 0))
    status = CUBLAS_STATUS_EXECUTION_FAILED;
  cuMemFree_v2(address);
  return status;
}
