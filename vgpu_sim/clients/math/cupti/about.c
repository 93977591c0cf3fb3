/* What CUPTI says of itself. There is nothing to trace: each kind of activity is refused. */
#include "api.h"
#include "texts.h"

CUptiResult tsr_cuptiGetVersion(uint32_t *version) {
  if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = TSR_PROFILING_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult tsr_cuptiGetResultString(int code, const char **str) {
  const char *name = tsr_status_name(code, NULL);
  if (!str || !name) return CUPTI_ERROR_INVALID_PARAMETER;
  *str = name;
  return CUPTI_SUCCESS;
}
