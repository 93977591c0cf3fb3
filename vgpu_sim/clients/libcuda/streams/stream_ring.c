#include "streams/stream_ring.h"

#include "log.h"
#include "exchange/wait.h"
#include "nodes/capture.h"

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
CUresult tsr_stream_ring_open(struct tsr_context *context, bool blocking, uint32_t *index) {
  pthread_mutex_lock(&context->stream_lock);
  const int found = take_index(context);
  if (found >= 0) {
    *index = (uint32_t)found;
    const uint64_t bit = UINT64_C(1) << (found % 64);
    context->streams[found / 64] |= bit;
    atomic_store(&context->synchronization[found], 0);
    atomic_store(&context->priority[found], 0);
    atomic_store(&context->group[found], 0);
    if (context->page->features & TESSERA_FEATURE_PRIORITIES)
      __atomic_store_n(&context->area->priorities[found], 0, __ATOMIC_RELAXED);
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

void tsr_stream_ring_close(struct tsr_context *context, uint32_t index) {
  pthread_mutex_lock(&context->stream_lock);
  context->streams[index / 64] &= ~(UINT64_C(1) << (index % 64));
  pthread_mutex_unlock(&context->stream_lock);
}

void tsr_stream_set_priority(struct tsr_context *context, uint32_t stream, int priority) {
  if (priority > 0) priority = 0;
  if (priority < TSR_GREATEST_PRIORITY) priority = TSR_GREATEST_PRIORITY;
  atomic_store(&context->priority[stream], (int8_t)priority);
  if (context->page->features & TESSERA_FEATURE_PRIORITIES)
    __atomic_store_n(&context->area->priorities[stream], (uint8_t)-priority, __ATOMIC_RELAXED);
}

CUresult tsr_stream_new(struct tsr_context *context, unsigned int flags, uint64_t *handle) {
  struct tsr_stream *stream = tsr_object_new(TSR_STREAM);
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result =
      tsr_stream_ring_open(context, !(flags & CU_STREAM_NON_BLOCKING), &stream->index);
  if (result != CUDA_SUCCESS) {
    tsr_object_free(TSR_STREAM, stream);
    return result;
  }
  stream->context = context;
  stream->context_handle = tsr_object_handle(TSR_CONTEXT, context);
  stream->flags = flags;
  *handle = tsr_object_publish(TSR_STREAM, stream);
  return CUDA_SUCCESS;
}

CUresult tsr_stream_drop(uint64_t handle) {
  struct tsr_stream *stream = TSR_FIND(tsr_stream, TSR_STREAM, handle);
  if (!stream || !tsr_object_retire(TSR_STREAM, handle)) return CUDA_ERROR_INVALID_HANDLE;
  if (TSR_FIND(tsr_context, TSR_CONTEXT, stream->context_handle)) {
    /* A capture cannot be completed without its streams. */
    if (tsr_captures(stream->context, stream->index))
      tsr_capture_abandon(stream->context, stream->index);
    tsr_stream_ring_close(stream->context, stream->index);
  }
  tsr_object_free(TSR_STREAM, stream);
  return CUDA_SUCCESS;
}
