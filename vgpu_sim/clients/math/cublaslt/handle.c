/* Handles of cuBLASLt, and what it says of itself. */
#include "api.h"
#include "objects.h"
#include "texts.h"

enum { HANDLE = 1 };

extern int cuInit(unsigned int flags);

cublasStatus_t tsr_cublasLtCreate(cublasLtHandle_t *lightHandle) {
  if (!lightHandle) return CUBLAS_STATUS_INVALID_VALUE;
  if (cuInit(0) != 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  *lightHandle = tsr_object_new(HANDLE, sizeof(void *));
  return *lightHandle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t tsr_cublasLtDestroy(cublasLtHandle_t lightHandle) {
  return tsr_object_free(lightHandle, HANDLE) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

size_t tsr_cublasLtGetVersion(void) {
  const struct tsr_version own = TSR_LIGHT_VERSION;
  return (size_t)(own.major * 10000 + own.minor * 100 + own.patch);
}

size_t tsr_cublasLtGetCudartVersion(void) { return TSR_CUDART_VERSION; }

cublasStatus_t tsr_cublasLtGetProperty(int type, int *value) {
  if (!value || tsr_version_part(TSR_LIGHT_VERSION, type) < 0) return CUBLAS_STATUS_INVALID_VALUE;
  *value = tsr_version_part(TSR_LIGHT_VERSION, type);
  return CUBLAS_STATUS_SUCCESS;
}

const char *tsr_cublasLtGetStatusName(int status) {
  return tsr_status_name(status, "CUBLAS_STATUS_UNKNOWN");
}

const char *tsr_cublasLtGetStatusString(int status) {
  return tsr_status_text(status, "unknown status");
}
