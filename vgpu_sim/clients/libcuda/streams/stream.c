#include "streams/stream.h"

#include "api.h"
#include "contexts/context.h"
#include "base/device.h"
#include "log.h"
#include "base/refuse.h"
#include "exchange/wait.h"

static struct tsr_stream *find(CUstream handle) {
  return TSR_FIND(tsr_stream, TSR_STREAM, handle);
}

CUresult tsr_stream_index(const struct tsr_context *context, CUstream handle, uint32_t *index) {
  if (!handle || handle == CU_STREAM_LEGACY) {
    *index = TSR_LEGACY_STREAM;
    return CUDA_SUCCESS;
  }
  if (handle == CU_STREAM_PER_THREAD) TSR_REFUSE("the per-thread default stream");
  const struct tsr_stream *stream = find(handle);
  if (!stream || stream->context_handle != tsr_object_handle(TSR_CONTEXT, context))
    return CUDA_ERROR_INVALID_HANDLE;
  *index = stream->index;
  return CUDA_SUCCESS;
}

/* Return an unused index, preferably one whose earlier work is done; under context.stream_lock. */
static int take_index(struct tsr_context *context) {
  int busy = -1;
  for (uint32_t i = 1; i < TESSERA_MAX_STREAMS; i++) {
    if (context->streams[i / 64] >> (i % 64) & 1) continue;
    if (tsr_stream_idle(context, i)) return (int)i;
    if (busy < 0) busy = (int)i;
  }
  return busy;
}

/* A destroyed stream's work may not be done yet, and stays in the legacy stream's order. A
 * non-blocking stream that gets the same index takes part in that order, which costs time but
 * does not change results. */
static CUresult open_ring(struct tsr_context *context, bool blocking, uint32_t *index) {
  pthread_mutex_lock(&context->stream_lock);
  const int found = take_index(context);
  if (found >= 0) {
    *index = (uint32_t)found;
    const uint64_t bit = UINT64_C(1) << (found % 64);
    context->streams[found / 64] |= bit;
    if (blocking)
      atomic_fetch_or(&context->blocking[found / 64], bit);
    else if (tsr_stream_idle(context, *index))
      atomic_fetch_and(&context->blocking[found / 64], ~bit);
    if (context->area->stream_limit <= *index)
      __atomic_store_n(&context->area->stream_limit, *index + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&context->stream_lock);
  if (found >= 0) return CUDA_SUCCESS;
  tsr_log("a context has at most %d streams", (int)TESSERA_MAX_STREAMS);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static void close_ring(struct tsr_context *context, uint32_t index) {
  pthread_mutex_lock(&context->stream_lock);
  context->streams[index / 64] &= ~(UINT64_C(1) << (index % 64));
  pthread_mutex_unlock(&context->stream_lock);
}

CUresult tsr_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
  TSR_CURRENT(context);
  if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)) return CUDA_ERROR_INVALID_VALUE;
  (void)priority; /* clamped to the range of priorities, which is 0 to 0 */
  struct tsr_stream *stream = tsr_object_new(TSR_STREAM);
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = open_ring(context, !(flags & CU_STREAM_NON_BLOCKING), &stream->index);
  if (result != CUDA_SUCCESS) {
    tsr_object_free(TSR_STREAM, stream);
    return result;
  }
  stream->context = context;
  stream->context_handle = tsr_object_handle(TSR_CONTEXT, context);
  stream->flags = flags;
  *phStream = (CUstream)(uintptr_t)tsr_object_publish(TSR_STREAM, stream);
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamCreate(CUstream *phStream, unsigned int Flags) {
  return tsr_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult tsr_cuStreamDestroy_v2(CUstream hStream) {
  struct tsr_stream *stream = find(hStream);
  if (!stream || !tsr_object_retire(TSR_STREAM, (uint64_t)(uintptr_t)hStream))
    return CUDA_ERROR_INVALID_HANDLE;
  if (TSR_FIND(tsr_context, TSR_CONTEXT, stream->context_handle))
    close_ring(stream->context, stream->index);
  tsr_object_free(TSR_STREAM, stream);
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamDestroy(CUstream hStream) { return tsr_cuStreamDestroy_v2(hStream); }

CUresult tsr_stream_locate(CUstream handle, struct tsr_context **context, uint32_t *index) {
  const struct tsr_stream *stream = find(handle);
  CUresult why = CUDA_SUCCESS;
  if (stream)
    *context = TSR_FIND(tsr_context, TSR_CONTEXT, stream->context_handle);
  else
    *context = tsr_context_current(&why);
  if (!*context) return stream ? CUDA_ERROR_CONTEXT_IS_DESTROYED : why;
  why = tsr_context_error(*context);
  return why != CUDA_SUCCESS ? why : tsr_stream_index(*context, handle, index);
}

CUresult tsr_cuStreamSynchronize(CUstream hStream) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  return result == CUDA_SUCCESS ? tsr_wait_stream(context, index) : result;
}

CUresult tsr_cuStreamQuery(CUstream hStream) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_stream_idle(context, index)) return tsr_context_error(context);
  /* A program may only poll, and must then detect that the worker was killed. */
  if (tsr_context_hung_up(context)) return tsr_context_lose(context);
  return CUDA_ERROR_NOT_READY;
}

CUresult tsr_cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  const struct tsr_stream *stream = find(hStream);
  *flags = stream ? stream->flags : 0;
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetPriority(CUstream hStream, int *priority) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = 0;
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  *pctx = (CUcontext)(uintptr_t)tsr_object_handle(TSR_CONTEXT, context);
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx) {
  const CUresult result = tsr_cuStreamGetCtx(hStream, pCtx);
  if (result == CUDA_SUCCESS && pGreenCtx) *pGreenCtx = NULL;
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
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (!streamId) return CUDA_ERROR_INVALID_VALUE;
  /* The handle is unique in the process; legacy streams use their context's. */
  const struct tsr_stream *stream = find(hStream);
  *streamId = stream ? (unsigned long long)(uintptr_t)hStream
                     : tsr_object_handle(TSR_CONTEXT, context);
  return CUDA_SUCCESS;
}

CUresult tsr_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus) {
  struct tsr_context *context;
  uint32_t index;
  const CUresult result = tsr_stream_locate(hStream, &context, &index);
  if (result != CUDA_SUCCESS) return result;
  if (!captureStatus) return CUDA_ERROR_INVALID_VALUE;
  *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
