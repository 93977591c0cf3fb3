/* Settings of contexts and devices that advise the hardware, or that this device does not have. */
#include "api.h"
#include "base/device.h"
#include "contexts/context.h"

enum { FOUR_BYTE_BANKS = 1, MOST_SHARED_CONFIG = 2 }; /* 0 is the default: four bytes */

static bool is_cache_config(CUfunc_cache config) {
  return (int)config >= 0 && config <= CU_FUNC_CACHE_PREFER_EQUAL;
}

/* Preferences of caches and banks do not change results; a context returns what was set. */
CUresult tsr_cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
  TSR_CURRENT(context);
  if (!pconfig) return CUDA_ERROR_INVALID_VALUE;
  *pconfig = (CUfunc_cache)atomic_load(&context->cache_config);
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxSetCacheConfig(CUfunc_cache config) {
  TSR_CURRENT(context);
  if (!is_cache_config(config)) return CUDA_ERROR_INVALID_VALUE;
  atomic_store(&context->cache_config, (uint32_t)config);
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig) {
  TSR_CURRENT(context);
  if (!pConfig) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t config = atomic_load(&context->shared_config);
  *pConfig = (CUsharedconfig)(config ? config : FOUR_BYTE_BANKS);
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxSetSharedMemConfig(CUsharedconfig config) {
  TSR_CURRENT(context);
  if ((int)config < 0 || (int)config > MOST_SHARED_CONFIG) return CUDA_ERROR_INVALID_VALUE;
  atomic_store(&context->shared_config, (uint32_t)config);
  return CUDA_SUCCESS;
}

/* The device has no cache lines that persist (MAX_PERSISTING_L2_CACHE_SIZE is 0). */
CUresult tsr_cuCtxResetPersistingL2Cache(void) {
  TSR_CURRENT(context);
  (void)context;
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev) {
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  (void)type; /* drivers answer for any number */
  if (!pi) return CUDA_ERROR_INVALID_VALUE;
  *pi = 0; /* a slice's multiprocessors are not divided among contexts */
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type) {
  TSR_CURRENT(context);
  (void)context;
  if (!pExecAffinity || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* Both control an external profiler, and do nothing if there is none. */
CUresult tsr_cuProfilerStart(void) {
  TSR_CURRENT(context);
  (void)context;
  return CUDA_SUCCESS;
}

CUresult tsr_cuProfilerStop(void) { return tsr_cuProfilerStart(); }
