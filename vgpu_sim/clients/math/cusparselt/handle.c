/* Handles of cuSPARSELt, which are in the caller's memory, and what it says of itself. */
#include <string.h>

#include "api.h"
#include "texts.h"

/* What an initialised handle contains, with its own address, so that no copy is one. */
struct content {
  uint64_t mark, address;
};
static const uint64_t mark = UINT64_C(0x545352535041524c);

extern int cuInit(unsigned int flags);

static struct content content_of(const cusparseLtHandle_t *handle) {
  return (struct content){mark, (uint64_t)(uintptr_t)handle};
}

static int is_handle(const cusparseLtHandle_t *handle) {
  const struct content wanted = content_of(handle);
  return handle && memcmp(handle->data, &wanted, sizeof wanted) == 0;
}

cusparseStatus_t tsr_cusparseLtInit(cusparseLtHandle_t *handle) {
  if (!handle) return CUSPARSE_STATUS_INVALID_VALUE;
  if (cuInit(0) != 0) return CUSPARSE_STATUS_NOT_INITIALIZED;
  const struct content wanted = content_of(handle);
  memset(handle, 0, sizeof *handle);
  memcpy(handle->data, &wanted, sizeof wanted);
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tsr_cusparseLtDestroy(const cusparseLtHandle_t *handle) {
  if (!is_handle(handle)) return CUSPARSE_STATUS_INVALID_VALUE;
  memset((void *)(uintptr_t)handle, 0, sizeof(struct content));
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tsr_cusparseLtGetVersion(const cusparseLtHandle_t *handle, int *version) {
  const struct tsr_version own = TSR_SPARSE_LIGHT_VERSION;
  if (!is_handle(handle) || !version) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = own.major * 1000 + own.minor * 100 + own.patch;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t tsr_cusparseLtGetProperty(int propertyType, int *value) {
  const int part = tsr_version_part(TSR_SPARSE_LIGHT_VERSION, propertyType);
  if (!value || part < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  *value = part;
  return CUSPARSE_STATUS_SUCCESS;
}

const char *tsr_cusparseLtGetErrorName(int code) { return tsr_status_name(code, "unknown status"); }

const char *tsr_cusparseLtGetErrorString(int code) { return tsr_status_text(code, "unknown status"); }
