/* Handles of cuBLASLt, and what it says of itself. */
#include "handle.h"

#include "api.h"
#include "blas_handle.h"
#include "descriptors.h"
#include "objects.h"
#include "texts.h"

bool tsr_light_is_handle(cublasLtHandle_t handle) {
  return tsr_object_find(handle, TSR_LIGHT_HANDLE) || tsr_is_blas_handle(handle);
}

bool tsr_light_enter(cublasLtHandle_t handle) {
  static struct tsr_current of_blas;
  struct tsr_current *own = tsr_object_find(handle, TSR_LIGHT_HANDLE);
  return tsr_current_enter(own ? own : &of_blas);
}

cublasStatus_t tsr_cublasLtCreate(cublasLtHandle_t *lightHandle) {
  struct tsr_current current = {0};
  if (!lightHandle) return CUBLAS_STATUS_INVALID_VALUE;
  if (!tsr_current_init(&current)) return CUBLAS_STATUS_NOT_INITIALIZED;
  struct tsr_current *made = tsr_object_new(TSR_LIGHT_HANDLE, sizeof *made);
  if (made) *made = current;
  *lightHandle = (cublasLtHandle_t)made;
  return made ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t tsr_cublasLtDestroy(cublasLtHandle_t lightHandle) {
  const struct tsr_current *own = tsr_object_find(lightHandle, TSR_LIGHT_HANDLE);
  if (!own) return CUBLAS_STATUS_NOT_INITIALIZED;
  const struct tsr_current last = *own;
  if (!tsr_object_free(lightHandle, TSR_LIGHT_HANDLE)) return CUBLAS_STATUS_NOT_INITIALIZED;
  tsr_current_end(&last);
  return CUBLAS_STATUS_SUCCESS;
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
