#include "api.h"
#include "status_table.h"

static const struct tsr_status *find(CUresult code) {
  for (size_t i = 0; i < tsr_status_count; i++)
    if (tsr_statuses[i].code == (int)code) return &tsr_statuses[i];
  return NULL;
}

CUresult tsr_cuGetErrorName(CUresult error, const char **pStr) {
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_status *found = find(error);
  *pStr = found ? found->name : NULL;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuGetErrorString(CUresult error, const char **pStr) {
  if (!pStr) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_status *found = find(error);
  *pStr = found ? found->text : NULL;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
