#include "contexts/device_context.h"

#include "contexts/context.h"

CUresult tsr_thread_context(struct tsr_context **context) {
  CUresult why;
  *context = tsr_context_current(&why);
  if (*context || why == CUDA_ERROR_INVALID_CONTEXT || why == CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return CUDA_SUCCESS;
  return why;
}

CUresult tsr_device_context(struct tsr_device *device, struct tsr_context **context) {
  CUresult result = tsr_thread_context(context);
  if (result != CUDA_SUCCESS || (*context && (*context)->device == device)) return result;
  *context = tsr_context_on(device);
  if (*context) return CUDA_SUCCESS;
  uint64_t handle;
  result = tsr_primary_open(device, &handle);
  if (result != CUDA_SUCCESS) return result;
  *context = TSR_FIND(tsr_context, TSR_CONTEXT, handle);
  return *context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
