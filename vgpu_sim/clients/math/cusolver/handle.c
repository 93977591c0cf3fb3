/* Handles of cuSOLVER's dense part, and what the library says of itself. */
#include "api.h"
#include "objects.h"

enum { HANDLE = 1 };

struct tsr_solver {
  cudaStream_t stream;
};

extern int cuInit(unsigned int flags);

cusolverStatus_t tsr_cusolverDnCreate(cusolverDnHandle_t *handle) {
  if (!handle) return CUSOLVER_STATUS_INVALID_VALUE;
  if (cuInit(0) != 0) return CUSOLVER_STATUS_NOT_INITIALIZED;
  *handle = tsr_object_new(HANDLE, sizeof(struct tsr_solver));
  return *handle ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}

cusolverStatus_t tsr_cusolverDnDestroy(cusolverDnHandle_t handle) {
  return tsr_object_free(handle, HANDLE) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_INITIALIZED;
}

cusolverStatus_t tsr_cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  struct tsr_solver *solver = tsr_object_find(handle, HANDLE);
  if (!solver) return CUSOLVER_STATUS_NOT_INITIALIZED;
  solver->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t tsr_cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t *stream) {
  const struct tsr_solver *solver = tsr_object_find(handle, HANDLE);
  if (!solver) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (!stream) return CUSOLVER_STATUS_INVALID_VALUE;
  *stream = solver->stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t tsr_cusolverGetVersion(int *version) {
  if (!version) return CUSOLVER_STATUS_INVALID_VALUE;
  const struct tsr_version own = TSR_SOLVER_VERSION;
  *version = own.major * 1000 + own.minor * 100 + own.patch;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t tsr_cusolverGetProperty(int type, int *value) {
  if (!value || tsr_version_part(TSR_SOLVER_VERSION, type) < 0) return CUSOLVER_STATUS_INVALID_VALUE;
  *value = tsr_version_part(TSR_SOLVER_VERSION, type);
  return CUSOLVER_STATUS_SUCCESS;
}
