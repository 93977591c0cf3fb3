/* Contexts that programs create, and each device's primary context. */
#include "api.h"
#include "contexts/context.h"
#include "base/device.h"
#include "base/hooks.h"
#include "base/refuse.h"
#include "exchange/wait.h"
#include "memory/physical.h"

enum { API_VERSION = 3020, DEFAULT_FLAGS = 0 }; /* the context API version since CUDA 3.2 */
enum { SUPPORTED_FLAGS = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX };

static CUresult check_flags(unsigned int flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  if (flags & ~(unsigned)CU_CTX_FLAGS_MASK || schedule & (schedule - 1))
    return CUDA_ERROR_INVALID_VALUE;
  if (flags & ~(unsigned)SUPPORTED_FLAGS)
    TSR_REFUSE("a context with core dumps or synchronous memory operations");
  return CUDA_SUCCESS;
}

static CUresult create(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_flags(flags);
  if (result != CUDA_SUCCESS) return result;
  uint64_t handle = 0;
  pthread_mutex_lock(&tsr_context_lock);
  result = tsr_context_open(device, flags, API_VERSION, false, &handle);
  if (result == CUDA_SUCCESS) {
    result = tsr_stack_push(handle);
    if (result != CUDA_SUCCESS) tsr_context_close(handle);
  }
  pthread_mutex_unlock(&tsr_context_lock);
  if (result == CUDA_SUCCESS) *pctx = (CUcontext)(uintptr_t)handle;
  return result;
}

CUresult tsr_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}

CUresult tsr_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  return create(pctx, flags, dev);
}

CUresult tsr_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                            unsigned int flags, CUdevice dev) {
  if (paramsArray || numParams) TSR_REFUSE("cuCtxCreate_v3 with an execution affinity");
  return create(pctx, flags, dev);
}

CUresult tsr_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                            unsigned int flags, CUdevice dev) {
  if (ctxCreateParams && (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
    TSR_REFUSE("cuCtxCreate_v4 with an execution affinity or graphics sharing");
  return create(pctx, flags, dev);
}

/* Wait for a context's work, before the lock is taken, which other threads may need meanwhile. */
static void finish_work(uint64_t handle) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, handle);
  if (context) tsr_wait_all(context);
}

CUresult tsr_cuCtxDestroy_v2(CUcontext ctx) {
  const uint64_t handle = (uint64_t)(uintptr_t)ctx;
  finish_work(handle);
  pthread_mutex_lock(&tsr_context_lock);
  const struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, handle);
  CUresult result = CUDA_ERROR_INVALID_CONTEXT;
  if (context && !context->primary) result = tsr_context_close(handle);
  pthread_mutex_unlock(&tsr_context_lock);
  if (result == CUDA_SUCCESS) tsr_stack_drop(handle);
  return result;
}

CUresult tsr_cuCtxSetFlags(unsigned int flags) {
  TSR_CURRENT(context);
  const CUresult result = check_flags(flags);
  if (result == CUDA_SUCCESS) context->flags = flags;
  return result;
}

CUresult tsr_cuCtxAttach(CUcontext *pctx, unsigned int flags) {
  TSR_CURRENT(context);
  if (!pctx || flags) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_context_lock);
  context->attached++;
  *pctx = (CUcontext)(uintptr_t)tsr_object_handle(TSR_CONTEXT, context);
  pthread_mutex_unlock(&tsr_context_lock);
  return CUDA_SUCCESS;
}

/* The last user that detaches destroys the context. */
CUresult tsr_cuCtxDetach(CUcontext ctx) {
  TSR_CURRENT(current);
  if (TSR_FIND(tsr_context, TSR_CONTEXT, ctx) != current) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&tsr_context_lock);
  const bool others = current->attached > 0;
  if (others) current->attached--;
  pthread_mutex_unlock(&tsr_context_lock);
  return others ? CUDA_SUCCESS : tsr_cuCtxDestroy_v2(ctx);
}

CUresult tsr_cuCtxDestroy(CUcontext ctx) { return tsr_cuCtxDestroy_v2(ctx); }

static CUresult open_primary_locked(struct tsr_device *device) {
  if (device->primary) return CUDA_SUCCESS;
  return tsr_context_open(device, device->primary_flags, API_VERSION, true, &device->primary);
}

CUresult tsr_primary_open(struct tsr_device *device, uint64_t *handle) {
  pthread_mutex_lock(&tsr_context_lock);
  const CUresult result = open_primary_locked(device);
  *handle = device->primary;
  pthread_mutex_unlock(&tsr_context_lock);
  return result;
}

CUresult tsr_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_context_lock);
  const CUresult result = open_primary_locked(device);
  if (result == CUDA_SUCCESS) {
    device->primary_users++;
    device->primary_kept = false;
    *pctx = (CUcontext)(uintptr_t)device->primary;
  }
  pthread_mutex_unlock(&tsr_context_lock);
  return result;
}

/* The same for the primary context, if it has at most `users` users. */
static void finish_primary_work(struct tsr_device *device, uint32_t users) {
  pthread_mutex_lock(&tsr_context_lock);
  const uint64_t handle = device->primary_users <= users ? device->primary : 0;
  pthread_mutex_unlock(&tsr_context_lock);
  finish_work(handle);
}

static void close_primary(struct tsr_device *device) {
  if (device->primary) tsr_context_close(device->primary);
  device->primary = 0;
  device->primary_users = 0;
  device->primary_kept = false;
}

/* Memory of cuMemCreate belongs to no context in CUDA, but here to the worker of one. */
static bool has_memory_locked(const struct tsr_device *device) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, device->primary);
  return context && tsr_context_error(context) == CUDA_SUCCESS && tsr_physical_lives(context);
}

/* Close the context's device's primary context, if only its memory kept it open. */
static void close_kept(struct tsr_context *context) {
  struct tsr_device *device = context->device;
  pthread_mutex_lock(&tsr_context_lock);
  const bool unused = device->primary_kept && !has_memory_locked(device);
  pthread_mutex_unlock(&tsr_context_lock);
  if (!unused) return;
  finish_primary_work(device, 0);
  pthread_mutex_lock(&tsr_context_lock);
  if (device->primary_kept && !has_memory_locked(device)) close_primary(device);
  pthread_mutex_unlock(&tsr_context_lock);
}

/* Close the primary context, of which the last user is gone, or keep it for its memory. */
static void abandon_primary_locked(struct tsr_device *device) {
  if (!has_memory_locked(device)) {
    close_primary(device);
    return;
  }
  device->primary_kept = true;
  tsr_hook_add(TSR_ON_PHYSICAL_FREED, close_kept);
}

CUresult tsr_cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
  struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  CUresult result = CUDA_SUCCESS;
  finish_primary_work(device, 1);
  pthread_mutex_lock(&tsr_context_lock);
  if (device->primary_users == 0)
    result = CUDA_ERROR_INVALID_CONTEXT;
  else if (--device->primary_users == 0)
    abandon_primary_locked(device);
  pthread_mutex_unlock(&tsr_context_lock);
  return result;
}

CUresult tsr_cuDevicePrimaryCtxRelease(CUdevice dev) {
  return tsr_cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult tsr_cuDevicePrimaryCtxReset_v2(CUdevice dev) {
  struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  finish_primary_work(device, UINT32_MAX);
  pthread_mutex_lock(&tsr_context_lock);
  close_primary(device);
  device->primary_flags = DEFAULT_FLAGS;
  pthread_mutex_unlock(&tsr_context_lock);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDevicePrimaryCtxReset(CUdevice dev) { return tsr_cuDevicePrimaryCtxReset_v2(dev); }

CUresult tsr_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
  struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_context_lock);
  *flags = device->primary_flags;
  *active = device->primary_users != 0;
  pthread_mutex_unlock(&tsr_context_lock);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags) {
  struct tsr_device *device = tsr_device(dev);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  const CUresult result = check_flags(flags);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&tsr_context_lock);
  device->primary_flags = flags;
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, device->primary);
  if (context) context->flags = flags;
  pthread_mutex_unlock(&tsr_context_lock);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return tsr_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}
