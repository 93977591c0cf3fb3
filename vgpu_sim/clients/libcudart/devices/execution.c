/* Execution contexts: the driver's contexts under the runtime's name, since version 13. */
#if TSR_CUDART >= 13
#include <pthread.h>
#include <stdlib.h>

#include "api.h"
#include "state.h"

enum { GREEN_CTX_DEFAULT_STREAM = 1 }; /* the driver requires it */
enum { NOT_PERMITTED = 800 };

/* The green contexts of this library's callers, by the contexts that they use instead. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct green {
  cudaExecutionContext_t context;
  CUgreenCtx green;
  struct green *next;
} *greens;

cudaError_t tsr_cudaDeviceGetExecutionCtx(cudaExecutionContext_t *ctx, int device) {
  return ctx ? tsr_primary(device, ctx) : cudaErrorInvalidValue;
}

cudaError_t tsr_cudaGreenCtxCreate(cudaExecutionContext_t *phCtx, cudaDevResourceDesc_t desc,
                                   int device, unsigned int flags) {
  if (!phCtx || flags) return cudaErrorInvalidValue;
  CUcontext primary; /* to which a green context belongs */
  int result = tsr_primary(device, &primary);
  if (result != cudaSuccess) return result;
  struct green *made = malloc(sizeof *made);
  if (!made) return cudaErrorMemoryAllocation;
  result = cuGreenCtxCreate(&made->green, desc, device, GREEN_CTX_DEFAULT_STREAM);
  if (result == cudaSuccess) {
    result = cuCtxFromGreenCtx(&made->context, made->green);
    if (result != cudaSuccess) cuGreenCtxDestroy(made->green);
  }
  if (result != cudaSuccess) {
    free(made);
    return result;
  }
  pthread_mutex_lock(&lock);
  made->next = greens;
  greens = made;
  pthread_mutex_unlock(&lock);
  *phCtx = made->context;
  return cudaSuccess;
}

/* Only green contexts are created by the runtime; a primary context is reset, not destroyed. */
cudaError_t tsr_cudaExecutionCtxDestroy(cudaExecutionContext_t ctx) {
  if (!ctx) return cudaErrorInvalidValue;
  pthread_mutex_lock(&lock);
  struct green **place = &greens;
  while (*place && (*place)->context != ctx) place = &(*place)->next;
  struct green *found = *place;
  if (found) *place = found->next;
  pthread_mutex_unlock(&lock);
  if (!found) return NOT_PERMITTED;
  const int result = cuGreenCtxDestroy(found->green);
  free(found);
  return result;
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
