#include "contexts/pool_context.h"

#include "api.h"
#include "base/device.h"
#include "contexts/context.h"
#include "memory/pool.h"

/* Memory of the host needs any context. */
static int ordinal_of(int device) { return device < 0 ? 0 : device; }

CUresult tsr_pool_context(struct tsr_pool *pool, struct tsr_context *preferred,
                          struct tsr_context **context) {
  *context = preferred;
  if (preferred && (pool->device < 0 || preferred->device == tsr_device(pool->device)))
    return CUDA_SUCCESS;
  CUcontext primary = NULL;
  const CUresult result = tsr_cuDevicePrimaryCtxRetain(&primary, ordinal_of(pool->device));
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&tsr_pool_lock);
  const bool had_primary = pool->has_primary;
  pool->has_primary = true;
  pthread_mutex_unlock(&tsr_pool_lock);
  tsr_pool_context_release(had_primary, pool->device);
  *context = TSR_FIND(tsr_context, TSR_CONTEXT, primary);
  return *context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void tsr_pool_context_release(bool has_primary, int device) {
  if (has_primary) tsr_cuDevicePrimaryCtxRelease_v2(ordinal_of(device));
}
