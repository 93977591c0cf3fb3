#include "streams/group_events.h"

#include "exchange/health.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "streams/event.h"
#include "streams/group.h"

static CUresult record_locked(struct tsr_context *context, uint32_t group, CUevent event) {
  uint32_t ring, count = 0;
  tessera_wait waits[TESSERA_MAX_STREAMS];
  CUresult result = tsr_group_ring(context, group, &ring);
  if (result != CUDA_SUCCESS) return result;
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++) {
    const uint64_t last = tsr_ring_last(context, i);
    if (i == ring || !tsr_group_has(context, i, group) || tsr_reached(context, i, last)) continue;
    waits[count++] = (tessera_wait){.stream = i, .value = last};
  }
  if (count) result = tsr_ring_wait(context, ring, waits, count);
  if (result != CUDA_SUCCESS) return result;
  return tsr_event_record_in((uint64_t)(uintptr_t)event, context, ring);
}

CUresult tsr_group_record(struct tsr_context *context, uint32_t group, CUevent event) {
  CUresult result = tsr_context_error(context);
  if (result == CUDA_SUCCESS && tsr_group_break_captures(context, group))
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&context->group_lock);
  result = record_locked(context, group, event);
  pthread_mutex_unlock(&context->group_lock);
  return result;
}

static bool is_open(struct tsr_context *context, uint32_t stream) {
  pthread_mutex_lock(&context->stream_lock);
  const bool open = context->streams[stream / 64] >> (stream % 64) & 1;
  pthread_mutex_unlock(&context->stream_lock);
  return open;
}

static CUresult wait_locked(struct tsr_context *context, uint32_t group, CUevent event) {
  uint32_t ring;
  CUresult result = tsr_group_ring(context, group, &ring);
  if (result == CUDA_SUCCESS)
    result = tsr_event_wait_in((uint64_t)(uintptr_t)event, context, ring);
  if (result != CUDA_SUCCESS) return result;
  context->groups[group].barrier = tsr_ring_last(context, ring);
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS && result == CUDA_SUCCESS; i++)
    if (i != ring && tsr_group_has(context, i, group) && is_open(context, i))
      result = tsr_group_pass(context, i, group);
  return result;
}

CUresult tsr_group_wait(struct tsr_context *context, uint32_t group, CUevent event) {
  CUresult result = tsr_context_error(context);
  if (result == CUDA_SUCCESS && tsr_event_breaks_capture(event))
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (result == CUDA_SUCCESS && tsr_group_break_captures(context, group))
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (result == CUDA_SUCCESS) result = tsr_event_wait_abroad(event, context);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&context->group_lock);
  result = wait_locked(context, group, event);
  pthread_mutex_unlock(&context->group_lock);
  return result;
}
