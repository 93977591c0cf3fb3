#include "streams/green.h"

#include "api.h"
#include "base/device.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "contexts/resources.h"
#include "exchange/wait.h"
#include "streams/group.h"
#include "streams/group_events.h"
#include "streams/stream.h"
#include "streams/stream_ring.h"

static _Atomic uint64_t next_id;

static CUresult fill(struct tsr_green *green, const struct tsr_resources *resources) {
  green->device = resources->device;
  green->sm = resources->sm;
  green->workqueue = resources->workqueue;
  green->id = atomic_fetch_add(&next_id, 1) + 1;
  CUresult result =
      tsr_group_begin(green->context, resources->sm.sm.smCount, &green->group);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) TSR_REFUSE("more than 16 green contexts of a device");
  tsr_object_publish(TSR_GREEN, green);
  return tsr_green_stream_new(green, CU_STREAM_NON_BLOCKING, 0, &green->stream);
}

CUresult tsr_cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                              unsigned int flags) {
  if (!phCtx || (flags & ~(unsigned)CU_GREEN_CTX_DEFAULT_STREAM)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_resources resources;
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!tsr_resources_of(desc, &resources) || resources.device != dev)
    return CUDA_ERROR_INVALID_VALUE;
  CUcontext primary;
  CUresult result = tsr_cuDevicePrimaryCtxRetain(&primary, dev);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, primary);
  struct tsr_green *green = NULL;
  result = CUDA_ERROR_OUT_OF_MEMORY;
  if (context && context->page->observing)
    result = tsr_resources_refuse_clock();
  else if (context && !(context->page->features & TESSERA_FEATURE_PARTITIONS))
    result = tsr_resources_refuse_worker();
  else if (context)
    green = tsr_object_new(TSR_GREEN);
  if (green) {
    green->context = context;
    green->context_handle = (uint64_t)(uintptr_t)primary;
    result = fill(green, &resources);
  }
  if (result == CUDA_SUCCESS) {
    *phCtx = (CUgreenCtx)(uintptr_t)tsr_object_handle(TSR_GREEN, green);
    return CUDA_SUCCESS;
  }
  if (green) {
    if (green->group) tsr_group_end(context, green->group);
    tsr_object_retire(TSR_GREEN, tsr_object_handle(TSR_GREEN, green));
    tsr_object_free(TSR_GREEN, green);
  }
  tsr_cuDevicePrimaryCtxRelease_v2(dev);
  return result;
}

/* The streams stay, for the program to destroy them. */
CUresult tsr_cuGreenCtxDestroy(CUgreenCtx hCtx) {
  struct tsr_green *green = TSR_GREEN_OF(hCtx);
  if (!green || !tsr_object_retire(TSR_GREEN, (uint64_t)(uintptr_t)hCtx))
    return CUDA_ERROR_INVALID_CONTEXT;
  const CUdevice device = green->device;
  CUresult result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (TSR_FIND(tsr_context, TSR_CONTEXT, green->context_handle)) {
    tsr_group_end(green->context, green->group);
    result = CUDA_SUCCESS;
  }
  tsr_stream_drop(green->stream);
  tsr_object_free(TSR_GREEN, green);
  return result == CUDA_SUCCESS ? tsr_cuDevicePrimaryCtxRelease_v2(device) : result;
}

/* Find a green context whose primary context lives. */
static CUresult find(CUgreenCtx handle, struct tsr_green **green) {
  *green = TSR_GREEN_OF(handle);
  if (!*green) return CUDA_ERROR_INVALID_CONTEXT;
  return TSR_FIND(tsr_context, TSR_CONTEXT, (*green)->context_handle)
             ? CUDA_SUCCESS
             : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult tsr_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx) {
  struct tsr_green *green;
  const CUresult result = find(hCtx, &green);
  if (result != CUDA_SUCCESS) return result;
  if (!pContext) return CUDA_ERROR_INVALID_VALUE;
  *pContext = (CUcontext)hCtx; /* wherever a context is expected, it stands for its primary one */
  return CUDA_SUCCESS;
}

CUresult tsr_cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId) {
  struct tsr_green *green;
  const CUresult result = find(greenCtx, &green);
  if (result != CUDA_SUCCESS) return result;
  if (!greenCtxId) return CUDA_ERROR_INVALID_VALUE;
  *greenCtxId = green->id;
  return CUDA_SUCCESS;
}

CUresult tsr_cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                    int priority) {
  struct tsr_green *green;
  CUresult result = find(greenCtx, &green);
  if (result == CUDA_SUCCESS) result = tsr_context_error(green->context);
  if (result != CUDA_SUCCESS) return result;
  if (!phStream || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle;
  result = tsr_green_stream_new(green, flags, priority, &handle);
  if (result == CUDA_SUCCESS) *phStream = (CUstream)(uintptr_t)handle;
  return result;
}

CUresult tsr_cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource,
                                      CUdevResourceType type) {
  struct tsr_green *green;
  const CUresult result = find(hCtx, &green);
  if (result != CUDA_SUCCESS) return result;
  if (!resource) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_DEV_RESOURCE_TYPE_SM)
    *resource = green->sm;
  else if (type == CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
    *resource = green->workqueue;
  else
    return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  return CUDA_SUCCESS;
}

CUresult tsr_cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type) {
  if (TSR_GREEN_OF(hCtx))
    return tsr_cuGreenCtxGetDevResource((CUgreenCtx)hCtx, resource, type);
  const struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, hCtx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  return tsr_cuDeviceGetDevResource((CUdevice)(context->device - tsr_devices), resource, type);
}

CUresult tsr_cuStreamGetDevResource(CUstream hStream, CUdevResource *resource,
                                    CUdevResourceType type) {
  CUcontext context;
  CUgreenCtx green;
  const CUresult result = tsr_cuStreamGetCtx_v2(hStream, &context, &green);
  if (result != CUDA_SUCCESS) return result;
  return tsr_cuCtxGetDevResource(green ? (CUcontext)green : context, resource, type);
}

CUresult tsr_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx) {
  CUcontext context;
  if (!phCtx) return CUDA_ERROR_INVALID_VALUE;
  return tsr_cuStreamGetCtx_v2(hStream, &context, phCtx);
}

CUresult tsr_cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent) {
  struct tsr_green *green;
  const CUresult result = find(hCtx, &green);
  return result == CUDA_SUCCESS ? tsr_group_record(green->context, green->group, hEvent) : result;
}

CUresult tsr_cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent) {
  struct tsr_green *green;
  const CUresult result = find(hCtx, &green);
  return result == CUDA_SUCCESS ? tsr_group_wait(green->context, green->group, hEvent) : result;
}

CUresult tsr_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  if (TSR_GREEN_OF(hCtx)) return tsr_cuGreenCtxRecordEvent((CUgreenCtx)hCtx, hEvent);
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, hCtx);
  return context ? tsr_group_record(context, 0, hEvent) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult tsr_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  if (TSR_GREEN_OF(hCtx)) return tsr_cuGreenCtxWaitEvent((CUgreenCtx)hCtx, hEvent);
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, hCtx);
  return context ? tsr_group_wait(context, 0, hEvent) : CUDA_ERROR_INVALID_CONTEXT;
}
