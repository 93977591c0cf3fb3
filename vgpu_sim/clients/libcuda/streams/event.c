/* Events: (stream, value, timestamp). */
#include "streams/event.h"

#include <stdlib.h>

#include "api.h"
#include "contexts/context.h"
#include "nodes/capture.h"
#include "log.h"
#include "exchange/ring.h"
#include "exchange/unsafe.h"
#include "exchange/wait.h"
#include "streams/shared_event.h"
#include "streams/stream.h"

enum { KNOWN_FLAGS = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS };
enum { NO_TIMESTAMP = -1 };

CUresult tsr_cuEventCreate(CUevent *phEvent, unsigned int Flags) {
  TSR_CURRENT(context);
  if (!phEvent || (Flags & ~(unsigned)KNOWN_FLAGS)) return CUDA_ERROR_INVALID_VALUE;
  const bool shared = Flags & CU_EVENT_INTERPROCESS;
  if (shared && !(Flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_event *event = tsr_object_new(TSR_EVENT);
  if (!event) return CUDA_ERROR_OUT_OF_MEMORY;
  event->context = context;
  event->context_handle = tsr_object_handle(TSR_CONTEXT, context);
  event->flags = Flags;
  event->timestamp = NO_TIMESTAMP;
  const CUresult result = shared ? tsr_shared_event_make(event) : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) {
    tsr_object_free(TSR_EVENT, event);
    return result;
  }
  *phEvent = (CUevent)(uintptr_t)tsr_object_publish(TSR_EVENT, event);
  return CUDA_SUCCESS;
}

/* Append an event's timestamp index to the free ones; (stream, value) is the request that writes
 * it last. */
static void give_timestamp(struct tsr_context *context, const struct tsr_event *event) {
  if (event->timestamp == NO_TIMESTAMP) return;
  const uint32_t place = (context->free_first + context->free_count++) % TESSERA_MAX_TIMESTAMPS;
  context->free_timestamps[place] = (uint16_t)event->timestamp;
  context->timestamps[event->timestamp] =
      (struct tsr_timestamp){.stream = event->stream, .value = event->value};
}

/* Take the first free index that no outstanding request will write; -1: there is none. */
static int32_t take_timestamp(struct tsr_context *context) {
  for (uint32_t tries = context->free_count; tries > 0; tries--) {
    const uint16_t index = context->free_timestamps[context->free_first];
    context->free_first = (context->free_first + 1) % TESSERA_MAX_TIMESTAMPS;
    context->free_count--;
    const struct tsr_timestamp *used = &context->timestamps[index];
    if (tsr_reached(context, used->stream, used->value)) return index;
    const uint32_t place = (context->free_first + context->free_count++) % TESSERA_MAX_TIMESTAMPS;
    context->free_timestamps[place] = index;
  }
  return NO_TIMESTAMP;
}

static bool context_lives(const struct tsr_event *event) {
  return TSR_FIND(tsr_context, TSR_CONTEXT, event->context_handle) != NULL;
}

CUresult tsr_cuEventDestroy_v2(CUevent hEvent) {
  struct tsr_event *event = TSR_FIND(tsr_event, TSR_EVENT, hEvent);
  if (!event || !tsr_object_retire(TSR_EVENT, (uint64_t)(uintptr_t)hEvent))
    return CUDA_ERROR_INVALID_HANDLE;
  if (context_lives(event)) {
    pthread_mutex_lock(&event->context->event_lock);
    give_timestamp(event->context, event);
    pthread_mutex_unlock(&event->context->event_lock);
  }
  if (event->shared) tsr_shared_event_end(event);
  tsr_graphs_lock(); /* a capture in another thread may read them */
  free(event->captured.tips.list);
  event->captured.tips = (struct tsr_edges){0};
  event->captured.sequence = 0;
  tsr_graphs_unlock();
  tsr_object_free(TSR_EVENT, event);
  return CUDA_SUCCESS;
}

CUresult tsr_cuEventDestroy(CUevent hEvent) { return tsr_cuEventDestroy_v2(hEvent); }

/* Find an event by its handle; returns its context's error if that has failed. */
static CUresult find(CUevent handle, struct tsr_event **event) {
  *event = TSR_FIND(tsr_event, TSR_EVENT, handle);
  if (!*event) return CUDA_ERROR_INVALID_HANDLE;
  if (!context_lives(*event)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return tsr_context_error((*event)->context);
}

/* Replace an event's record; under the ring's lock, so that value and slot agree. */
static CUresult write_record(struct tsr_event *event, const struct tsr_request *request,
                             bool timed) {
  struct tsr_context *context = event->context;
  int32_t timestamp = NO_TIMESTAMP;
  pthread_mutex_lock(&context->event_lock);
  if (timed) {
    timestamp = take_timestamp(context);
    /* If all are in use, the event may reuse its own slot once that has been written. */
    if (timestamp == NO_TIMESTAMP && event->recorded &&
        tsr_reached(context, event->stream, event->value))
      timestamp = event->timestamp;
    if (timestamp == NO_TIMESTAMP) {
      pthread_mutex_unlock(&context->event_lock);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (event->recorded && event->timestamp != timestamp) give_timestamp(context, event);
  event->recorded = true;
  event->stream = request->stream;
  event->value = request->value;
  event->timestamp = timestamp;
  pthread_mutex_unlock(&context->event_lock);
  return CUDA_SUCCESS;
}

/* Record in a ring; the event is of the same context. */
static CUresult enqueue_record(struct tsr_event *event, uint32_t stream) {
  if (event->shared) return tsr_shared_event_record(event, stream);
  const bool timed = !(event->flags & CU_EVENT_DISABLE_TIMING);
  struct tsr_request request;
  tsr_ring_lock(&request, event->context, stream);
  CUresult result =
      tsr_ring_begin(&request, timed ? TESSERA_OPCODE_TIMESTAMP : TESSERA_OPCODE_NOP, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  result = write_record(event, &request, timed);
  if (result == CUDA_SUCCESS && timed) {
    request.slot->body.timestamp =
        (tessera_timestamp_body){.index = (uint32_t)event->timestamp};
  } else if (result != CUDA_SUCCESS) {
    request.slot->opcode = TESSERA_OPCODE_NOP;
    tsr_log("a context has at most %d recorded events with timing", (int)TESSERA_MAX_TIMESTAMPS);
  }
  tsr_ring_commit(&request);
  return result;
}

CUresult tsr_event_record_in(uint64_t handle, struct tsr_context *context, uint32_t stream) {
  struct tsr_event *event;
  const CUresult result = find((CUevent)(uintptr_t)handle, &event);
  if (result != CUDA_SUCCESS) return result;
  if (event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  event->captured.sequence = 0; /* the record replaces one that was captured */
  return enqueue_record(event, stream);
}

static CUresult capture_external(struct tsr_context *context, uint32_t stream,
                                 CUgraphNodeType type, CUevent event) {
  /* A wait has no context, like one that a program describes: either may replace the other. */
  const bool records = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  struct tsr_operation operation = {.type = type,
                                    .context =
                                        records ? tsr_object_handle(TSR_CONTEXT, context) : 0,
                                    .event = (uint64_t)(uintptr_t)event};
  return tsr_capture_add(context, stream, &operation);
}

static CUresult record(CUevent hEvent, CUstream hStream, bool external) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_event *event;
  result = find(hEvent, &event);
  if (result != CUDA_SUCCESS) return result;
  if (event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (tsr_captures(context, stream))
    return external ? capture_external(context, stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, hEvent)
                    : tsr_capture_record(context, stream, &event->captured);
  event->captured.sequence = 0;
  return enqueue_record(event, stream);
}

CUresult tsr_cuEventRecord(CUevent hEvent, CUstream hStream) {
  return record(hEvent, hStream, false);
}

CUresult tsr_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  return record(hEvent, hStream, flags != 0);
}

/* Return a consistent copy of the record. */
static struct tsr_event snapshot(struct tsr_event *event) {
  pthread_mutex_lock(&event->context->event_lock);
  struct tsr_event copy = {.context = event->context,
                           .flags = event->flags,
                           .recorded = event->recorded,
                           .stream = event->stream,
                           .value = event->value,
                           .timestamp = event->timestamp};
  pthread_mutex_unlock(&event->context->event_lock);
  return copy;
}

/* Refuse to wait for an event of a capture, which becomes invalid. */
static CUresult refuse_captured(const struct tsr_event *event) {
  tsr_capture_break_event(&event->captured);
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult tsr_cuEventQuery(CUevent hEvent) {
  struct tsr_event *event;
  const CUresult result = find(hEvent, &event);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_capture_has_event(&event->captured)) return refuse_captured(event);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  if (event->shared) return tsr_shared_event_query(event);
  const struct tsr_event seen = snapshot(event);
  if (!seen.recorded || tsr_reached(seen.context, seen.stream, seen.value)) return CUDA_SUCCESS;
  if (tsr_context_hung_up(seen.context)) return tsr_context_lose(seen.context);
  return CUDA_ERROR_NOT_READY;
}

CUresult tsr_cuEventSynchronize(CUevent hEvent) {
  struct tsr_event *event;
  const CUresult result = find(hEvent, &event);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_capture_has_event(&event->captured)) return refuse_captured(event);
  if (event->shared)
    return tsr_wait_and_trim(event->context, tsr_shared_event_synchronize(event));
  const struct tsr_event seen = snapshot(event);
  if (!seen.recorded) return CUDA_SUCCESS;
  return tsr_wait_and_trim(seen.context, tsr_wait(seen.context, seen.stream, seen.value));
}

CUresult tsr_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  if (!pMilliseconds) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_event *events[2];
  uint64_t times_ns[2];
  CUresult result = find(hStart, &events[0]);
  if (result == CUDA_SUCCESS) result = find(hEnd, &events[1]);
  if (result != CUDA_SUCCESS) return result;
  for (int i = 0; i < 2; i++) {
    if (tsr_capture_has_event(&events[i]->captured)) return CUDA_ERROR_CAPTURED_EVENT;
    const struct tsr_event seen = snapshot(events[i]);
    if (!seen.recorded || seen.timestamp == NO_TIMESTAMP) return CUDA_ERROR_INVALID_HANDLE;
    if (!tsr_reached(seen.context, seen.stream, seen.value)) return CUDA_ERROR_NOT_READY;
    const uint64_t *stored = &seen.context->page->timestamps[seen.timestamp];
    times_ns[i] = __atomic_load_n(stored, __ATOMIC_RELAXED);
  }
  *pMilliseconds = (float)((double)(int64_t)(times_ns[1] - times_ns[0]) / 1e6);
  return CUDA_SUCCESS;
}

CUresult tsr_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
  return tsr_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

CUresult tsr_event_wait_in(uint64_t handle, struct tsr_context *context, uint32_t stream) {
  struct tsr_event *event;
  const CUresult result = find((CUevent)(uintptr_t)handle, &event);
  if (result != CUDA_SUCCESS) return result;
  if (event->shared) return tsr_shared_event_wait(event, context, stream);
  const struct tsr_event seen = snapshot(event);
  if (!seen.recorded || tsr_reached(seen.context, seen.stream, seen.value)) return CUDA_SUCCESS;
  /* A wait can only refer to a stream of its own context; for another context the client waits. */
  if (seen.context != context) return tsr_wait(seen.context, seen.stream, seen.value);
  const tessera_wait wait = {.stream = seen.stream, .value = seen.value};
  return tsr_ring_wait(context, stream, &wait, wait.stream != stream);
}

CUresult tsr_event_wait_abroad(CUevent handle, const struct tsr_context *context) {
  struct tsr_event *event;
  const CUresult result = find(handle, &event);
  if (result != CUDA_SUCCESS || event->context == context) return result;
  if (event->shared) return tsr_shared_event_synchronize(event);
  const struct tsr_event seen = snapshot(event);
  return seen.recorded ? tsr_wait(seen.context, seen.stream, seen.value) : CUDA_SUCCESS;
}

bool tsr_event_breaks_capture(CUevent handle) {
  struct tsr_event *event;
  return find(handle, &event) == CUDA_SUCCESS && tsr_capture_break_event(&event->captured);
}

CUresult tsr_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_event *event;
  result = find(hEvent, &event);
  if (result != CUDA_SUCCESS) return result;
  const bool captures = tsr_captures(context, stream);
  if (captures && Flags)
    return capture_external(context, stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, hEvent);
  if (tsr_capture_has_event(&event->captured))
    return tsr_capture_wait(context, stream, &event->captured);
  if (captures) {
    if (!(event->shared ? tsr_shared_event_is_recorded(event) : event->recorded))
      return CUDA_SUCCESS;
    return tsr_capture_break(context, stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  return tsr_event_wait_in((uint64_t)(uintptr_t)hEvent, context, stream);
}
