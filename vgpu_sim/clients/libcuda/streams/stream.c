#include "streams/stream.h"

#include "api.h"
#include "contexts/context.h"
#include "base/device.h"
#include "exchange/unsafe.h"
#include "exchange/wait.h"
#include "nodes/capture.h"
#include "process.h"
#include "streams/green.h"
#include "streams/group.h"
#include "streams/stream_ring.h"
#include "streams/thread_stream.h"

/* Find the stream of a handle; CUDA_SUCCESS with NULL: the legacy stream. */
static CUresult find(struct tsr_context *context, CUstream handle, struct tsr_stream **stream) {
  *stream = NULL;
  if (!handle) handle = tsr_per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    const struct tsr_green *green = tsr_green_current();
    if (!green && handle == CU_STREAM_LEGACY) return CUDA_SUCCESS;
    if (!green) return tsr_thread_stream(context, stream);
    if (handle == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
    handle = (CUstream)(uintptr_t)green->stream;
  }
  *stream = TSR_FIND(tsr_stream, TSR_STREAM, handle);
  if (!*stream || (*stream)->context_handle != tsr_object_handle(TSR_CONTEXT, context))
    return CUDA_ERROR_INVALID_HANDLE;
  return (*stream)->green && !TSR_GREEN_OF((*stream)->green) ? CUDA_ERROR_STREAM_DETACHED
                                                             : CUDA_SUCCESS;
}

CUresult tsr_stream_index(struct tsr_context *context, CUstream handle, uint32_t *index) {
  struct tsr_stream *stream;
  const CUresult result = find(context, handle, &stream);
  if (result == CUDA_SUCCESS) *index = stream ? stream->index : TSR_LEGACY_STREAM;
  return result;
}

CUresult tsr_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
  TSR_CURRENT(context);
  if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_green *green = tsr_green_current();
  uint64_t handle;
  if (green) {
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    const CUresult made = tsr_green_stream_new(green, flags, priority, &handle);
    if (made == CUDA_SUCCESS) *phStream = (CUstream)(uintptr_t)handle;
    return made;
  }
  CUresult result = tsr_stream_new(context, flags, &handle);
  if (result != CUDA_SUCCESS) return result;
  const struct tsr_stream *made = TSR_FIND(tsr_stream, TSR_STREAM, handle);
  if (made) {
    tsr_stream_set_priority(context, made->index, priority);
    result = tsr_group_join(context, made->index, 0);
    if (result != CUDA_SUCCESS) {
      tsr_stream_drop(handle);
      return result;
    }
  }
  *phStream = (CUstream)(uintptr_t)handle;
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamCreate(CUstream *phStream, unsigned int Flags) {
  return tsr_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult tsr_cuStreamDestroy_v2(CUstream hStream) {
  return tsr_stream_drop((uint64_t)(uintptr_t)hStream);
}

CUresult tsr_cuStreamDestroy(CUstream hStream) { return tsr_cuStreamDestroy_v2(hStream); }

/* Find a stream and its context. Returns an error if the context has failed. */
static CUresult locate(CUstream handle, struct tsr_context **context, struct tsr_stream **stream) {
  const struct tsr_stream *named = TSR_FIND(tsr_stream, TSR_STREAM, handle);
  CUresult why = CUDA_SUCCESS;
  if (named)
    *context = TSR_FIND(tsr_context, TSR_CONTEXT, named->context_handle);
  else
    *context = tsr_context_current(&why);
  if (!*context) return named ? CUDA_ERROR_CONTEXT_IS_DESTROYED : why;
  why = tsr_context_error(*context);
  return why != CUDA_SUCCESS ? why : find(*context, handle, stream);
}

CUresult tsr_stream_locate(CUstream handle, struct tsr_context **context, uint32_t *index) {
  struct tsr_stream *stream;
  const CUresult result = locate(handle, context, &stream);
  if (result == CUDA_SUCCESS) *index = stream ? stream->index : TSR_LEGACY_STREAM;
  return result;
}

/* A stream that captures has no work to wait for, and neither has the legacy stream while blocking
 * streams capture, because it would have to wait for these. */
static CUresult check_capture(struct tsr_context *context, uint32_t stream) {
  if (tsr_captures(context, stream))
    return tsr_capture_break(context, stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (stream != TSR_LEGACY_STREAM || atomic_load(&context->blocking_captures) == 0)
    return CUDA_SUCCESS;
  tsr_capture_break_all(context);
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult tsr_cuStreamSynchronize(CUstream hStream) {
  struct tsr_context *context;
  uint32_t index;
  CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result == CUDA_SUCCESS) result = check_capture(context, index);
  if (result != CUDA_SUCCESS) return result;
  return tsr_wait_and_trim(context, tsr_wait_stream(context, index));
}

CUresult tsr_cuStreamQuery(CUstream hStream) {
  struct tsr_context *context;
  uint32_t index;
  CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result == CUDA_SUCCESS) result = check_capture(context, index);
  if (result == CUDA_SUCCESS) result = tsr_capture_check_unsafe();
  if (result != CUDA_SUCCESS) return result;
  if (tsr_stream_idle(context, index)) return tsr_context_error(context);
  /* A program may only poll, and must then detect that the worker was killed. */
  if (tsr_context_hung_up(context)) return tsr_context_lose(context);
  return CUDA_ERROR_NOT_READY;
}

CUresult tsr_cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
  struct tsr_context *context;
  struct tsr_stream *stream;
  const CUresult result = locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream ? stream->flags : 0;
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetPriority(CUstream hStream, int *priority) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = atomic_load(&context->priority[index]);
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
  struct tsr_context *context;
  struct tsr_stream *stream;
  const CUresult result = locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!pCtx) return CUDA_ERROR_INVALID_VALUE;
  *pCtx = (CUcontext)(uintptr_t)tsr_object_handle(TSR_CONTEXT, context);
  if (pGreenCtx) *pGreenCtx = stream ? (CUgreenCtx)(uintptr_t)stream->green : NULL;
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
  CUgreenCtx green = NULL;
  const CUresult result = tsr_cuStreamGetCtx_v2(hStream, pctx, &green);
  if (result == CUDA_SUCCESS && green) *pctx = (CUcontext)green;
  return result;
}

CUresult tsr_cuStreamGetDevice(CUstream hStream, CUdevice *device) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = (CUdevice)(context->device - tsr_devices);
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
  struct tsr_context *context;
  struct tsr_stream *stream;
  const CUresult result = locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!streamId) return CUDA_ERROR_INVALID_VALUE;
  /* The handle is unique in the process; legacy streams use their context's. */
  *streamId = stream ? tsr_object_handle(TSR_STREAM, stream)
                     : tsr_object_handle(TSR_CONTEXT, context);
  return CUDA_SUCCESS;
}
