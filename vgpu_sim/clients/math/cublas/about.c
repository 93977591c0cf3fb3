/* What cuBLAS says of itself: versions and statuses. */
#include "api.h"
#include "handle.h"
#include "texts.h"

/* NVIDIA's library takes NULL as a handle here. */
cublasStatus_t tsr_cublasGetVersion_v2(cublasHandle_t handle, int *version) {
  if (handle && !tsr_blas_of(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  const struct tsr_version own = TSR_BLAS_VERSION;
  *version = own.major * 10000 + own.minor * 100 + own.patch;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_cublasGetProperty(int type, int *value) {
  if (!value || tsr_version_part(TSR_BLAS_VERSION, type) < 0) return CUBLAS_STATUS_INVALID_VALUE;
  *value = tsr_version_part(TSR_BLAS_VERSION, type);
  return CUBLAS_STATUS_SUCCESS;
}

size_t tsr_cublasGetCudartVersion(void) { return TSR_CUDART_VERSION; }

const char *tsr_cublasGetStatusName(int status) {
  return tsr_status_name(status, "CUBLAS_STATUS_UNKNOWN");
}

const char *tsr_cublasGetStatusString(int status) { return tsr_status_text(status, "unknown status"); }
