#include "contexts/device_context.h"

#include "contexts/context.h"

CUresult tsr_device_context(struct tsr_device *device, struct tsr_context **context) {
  CUresult why;
  struct tsr_context *const current = tsr_context_current(&why);
  *context = current;
  if (current && current->device == device) return CUDA_SUCCESS;
  /* A destroyed context that is still current is like none. */
  if (!current && why != CUDA_ERROR_INVALID_CONTEXT && why != CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return why;
  *context = tsr_context_on(device);
  if (*context) return CUDA_SUCCESS;
  uint64_t handle;
  const CUresult result = tsr_primary_open(device, &handle);
  if (result != CUDA_SUCCESS) return result;
  *context = TSR_FIND(tsr_context, TSR_CONTEXT, handle);
  return *context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
