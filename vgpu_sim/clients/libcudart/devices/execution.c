/* Execution contexts: the driver's contexts under the runtime's name, since version 13. */
#if TSR_CUDART >= 13
#include "api.h"
#include "state.h"

cudaError_t tsr_cudaDeviceGetExecutionCtx(cudaExecutionContext_t *ctx, int device) {
  return ctx ? tsr_primary(device, ctx) : cudaErrorInvalidValue;
}

cudaError_t tsr_cudaExecutionCtxStreamCreate(cudaStream_t *phStream, cudaExecutionContext_t ctx,
                                             unsigned int flags, int priority) {
  CUcontext before;
  int result = cuCtxGetCurrent(&before);
  if (result == cudaSuccess) result = cuCtxSetCurrent(ctx);
  if (result != cudaSuccess) return result;
  result = cuStreamCreateWithPriority(phStream, flags, priority);
  cuCtxSetCurrent(before);
  return result;
}
#else
typedef int tsr_no_execution_contexts;
#endif
