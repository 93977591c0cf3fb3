#include "contexts/pool_context.h"

#include "base/device.h"
#include "contexts/context.h"

CUresult tsr_pool_context(const struct tsr_pool *pool, struct tsr_context *preferred,
                          struct tsr_context **context) {
  struct tsr_device *device = tsr_device(pool->device < 0 ? 0 : pool->device);
  *context = preferred;
  if (preferred && (pool->device < 0 || preferred->device == device)) return CUDA_SUCCESS;
  uint64_t handle;
  const CUresult result = tsr_primary_open(device, &handle);
  if (result != CUDA_SUCCESS) return result;
  *context = TSR_FIND(tsr_context, TSR_CONTEXT, handle);
  return *context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
