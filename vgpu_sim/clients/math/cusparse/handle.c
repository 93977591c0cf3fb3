/* Handles of cuSPARSE, and what it says of itself. */
#include "api.h"
#include "objects.h"
#include "texts.h"

enum { HANDLE = 1, LAST_POINTER_MODE = 1 };

struct tsr_sparse {
  cudaStream_t stream;
  int pointer_mode;
};

extern int cuInit(unsigned int flags);

cusparseStatus_t tsr_cusparseCreate(cusparseHandle_t *handle) {
  if (!handle) return CUSPARSE_STATUS_INVALID_VALUE;
  if (cuInit(0) != 0) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *handle = tsr_object_new(HANDLE, sizeof(struct tsr_sparse));
  return *handle ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;
}

cusparseStatus_t tsr_cusparseDestroy(cusparseHandle_t handle) {
  return tsr_object_free(handle, HANDLE) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t tsr_cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  struct tsr_sparse *sparse = tsr_object_find(handle, HANDLE);
  if (!sparse) return CUSPARSE_STATUS_INVALID_VALUE;
  sparse->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tsr_cusparseGetStream(cusparseHandle_t handle, cudaStream_t *stream) {
  const struct tsr_sparse *sparse = tsr_object_find(handle, HANDLE);
  if (!sparse || !stream) return CUSPARSE_STATUS_INVALID_VALUE;
  *stream = sparse->stream;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tsr_cusparseSetPointerMode(cusparseHandle_t handle, int mode) {
  struct tsr_sparse *sparse = tsr_object_find(handle, HANDLE);
  if (!sparse || mode < 0 || mode > LAST_POINTER_MODE) return CUSPARSE_STATUS_INVALID_VALUE;
  sparse->pointer_mode = mode;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tsr_cusparseGetPointerMode(cusparseHandle_t handle, int *mode) {
  const struct tsr_sparse *sparse = tsr_object_find(handle, HANDLE);
  if (!sparse || !mode) return CUSPARSE_STATUS_INVALID_VALUE;
  *mode = sparse->pointer_mode;
  return CUSPARSE_STATUS_SUCCESS;
}

/* NVIDIA's library takes NULL as a handle here. */
cusparseStatus_t tsr_cusparseGetVersion(cusparseHandle_t handle, int *version) {
  if (handle && !tsr_object_find(handle, HANDLE)) return CUSPARSE_STATUS_INVALID_VALUE;
  if (!version) return CUSPARSE_STATUS_INVALID_VALUE;
  const struct tsr_version own = TSR_SPARSE_VERSION;
  *version = own.major * 1000 + own.minor * 100 + own.patch;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tsr_cusparseGetProperty(int type, int *value) {
  if (!value || tsr_version_part(TSR_SPARSE_VERSION, type) < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  *value = tsr_version_part(TSR_SPARSE_VERSION, type);
  return CUSPARSE_STATUS_SUCCESS;
}

const char *tsr_cusparseGetErrorName(int status) {
  return tsr_status_name(status, "CUSPARSE_STATUS_UNKNOWN");
}

const char *tsr_cusparseGetErrorString(int status) {
  return tsr_status_text(status, "unknown status");
}
