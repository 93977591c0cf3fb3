#define _GNU_SOURCE
#include "streams/shared_event.h"

#include <stdlib.h>
#include <time.h>

#include "exchange/health.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "log.h"
#include "sharing/event_import.h"

enum { FIRST_SLEEP_NS = 20000, LAST_SLEEP_NS = 1000000, LOOK_EVERY = 16 };

/* A record of this process, and the request that makes it. */
struct made {
  struct tsr_event_record record;
  uint64_t value;
};

struct tsr_shared_event {
  struct tsr_event_place place;
  bool imported;
  struct made made[TESSERA_MAX_STREAMS]; /* by ring: the latest one; under the event lock */
};

static CUresult give_place(struct tsr_event *event, const struct tsr_event_place *place,
                           bool imported) {
  struct tsr_shared_event *shared = calloc(1, sizeof *shared);
  if (!shared) return CUDA_ERROR_OUT_OF_MEMORY;
  shared->place = *place;
  shared->imported = imported;
  event->shared = shared;
  return CUDA_SUCCESS;
}

CUresult tsr_shared_event_make(struct tsr_event *event) {
  struct tsr_event_place place;
  CUresult result = tsr_event_place_new(event->context, &place);
  if (result != CUDA_SUCCESS) return result;
  result = give_place(event, &place, false);
  if (result != CUDA_SUCCESS) tsr_event_place_give(&place);
  return result;
}

CUresult tsr_shared_event_join(struct tsr_event *event, const struct tsr_event_place *place) {
  return give_place(event, place, true);
}

void tsr_shared_event_end(struct tsr_event *event) {
  struct tsr_shared_event *shared = event->shared;
  if (shared->imported)
    tsr_event_unimport(event->context_handle, shared->place.table);
  else
    tsr_event_place_give(&shared->place);
  event->shared = NULL;
  free(shared);
}

const struct tsr_event_place *tsr_shared_event_place(const struct tsr_event *event) {
  return event->shared->imported ? NULL : &event->shared->place;
}

/* The record is claimed under the ring's lock, so that its numbers follow the ring's order. */
CUresult tsr_shared_event_record(struct tsr_event *event, uint32_t stream) {
  struct tsr_context *context = event->context;
  struct made *made = &event->shared->made[stream];
  struct tsr_event_record record;
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  CUresult result = tsr_ring_begin(&request, TESSERA_OPCODE_WRITE, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&context->event_lock);
  result = tsr_event_claim(&event->shared->place, &made->record, &record);
  if (result == CUDA_SUCCESS) {
    request.slot->body.value = (tessera_value_body){
        .address = record.done, .value = record.number, .width_bytes = sizeof(uint64_t)};
    *made = (struct made){.record = record, .value = request.value};
    result = tsr_event_publish(&event->shared->place, &record);
  } else {
    request.slot->opcode = TESSERA_OPCODE_NOP;
  }
  pthread_mutex_unlock(&context->event_lock);
  tsr_ring_commit(&request);
  return result;
}

/* Find the request of this process that makes a record; false: another process makes it. */
static bool find_request(const struct tsr_event *event, const struct tsr_event_record *record,
                         tessera_wait *wait) {
  bool found = false;
  pthread_mutex_lock(&event->context->event_lock);
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS && !found; i++) {
    const struct made *made = &event->shared->made[i];
    found = made->record.word == record->word;
    if (found) *wait = (tessera_wait){.stream = i, .value = made->value};
  }
  pthread_mutex_unlock(&event->context->event_lock);
  return found;
}

static CUresult lose(void) {
  tsr_log("an interprocess event will never complete: the context that recorded or made it has ended");
  return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult tsr_shared_event_query(struct tsr_event *event) {
  struct tsr_event_record record;
  enum tsr_record_state state;
  const CUresult result = tsr_event_look(&event->shared->place, &record, &state);
  if (result != CUDA_SUCCESS || state == TSR_RECORD_DONE) return result;
  if (tsr_context_hung_up(event->context)) return tsr_context_lose(event->context);
  return state == TSR_RECORD_NEVER ? lose() : CUDA_ERROR_NOT_READY;
}

bool tsr_shared_event_is_recorded(struct tsr_event *event) {
  struct tsr_event_record record = {0};
  enum tsr_record_state state;
  return tsr_event_look(&event->shared->place, &record, &state) == CUDA_SUCCESS && record.word;
}

/* Wait for a record that another process makes. Its worker wakes no thread of this process. */
static CUresult wait_abroad(struct tsr_event *event, const struct tsr_event_record *record) {
  enum tsr_record_state state = TSR_RECORD_PENDING;
  struct timespec pause = {.tv_nsec = FIRST_SLEEP_NS};
  for (uint32_t turn = 0;; turn++) {
    CUresult result = tsr_event_look_again(&event->shared->place, record, &state);
    if (result == CUDA_SUCCESS) result = tsr_context_error(event->context);
    if (result != CUDA_SUCCESS || state == TSR_RECORD_DONE) return result;
    if (state == TSR_RECORD_NEVER) return lose();
    if (turn % LOOK_EVERY == 0 && tsr_context_hung_up(event->context))
      return tsr_context_lose(event->context);
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < LAST_SLEEP_NS) pause.tv_nsec *= 2;
  }
}

static CUresult look(struct tsr_event *event, struct tsr_event_record *record, bool *done) {
  enum tsr_record_state state;
  const CUresult result = tsr_event_look(&event->shared->place, record, &state);
  if (result != CUDA_SUCCESS) return result;
  *done = state == TSR_RECORD_DONE;
  return state == TSR_RECORD_NEVER ? lose() : CUDA_SUCCESS;
}

static CUresult wait_on_host(struct tsr_event *event, const struct tsr_event_record *record) {
  tessera_wait wait;
  if (find_request(event, record, &wait)) return tsr_wait(event->context, wait.stream, wait.value);
  return wait_abroad(event, record);
}

CUresult tsr_shared_event_synchronize(struct tsr_event *event) {
  struct tsr_event_record record;
  bool done;
  const CUresult result = look(event, &record, &done);
  return result != CUDA_SUCCESS || done ? result : wait_on_host(event, &record);
}

CUresult tsr_shared_event_wait(struct tsr_event *event, struct tsr_context *context,
                               uint32_t stream) {
  struct tsr_event_record record;
  bool done;
  CUresult result = look(event, &record, &done);
  if (result != CUDA_SUCCESS || done) return result;
  if (event->context != context) return wait_on_host(event, &record);
  tessera_wait wait;
  if (find_request(event, &record, &wait))
    return tsr_ring_wait(context, stream, &wait, wait.stream != stream);
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  result = tsr_ring_begin(&request, TESSERA_OPCODE_AWAIT, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  request.slot->body.value = (tessera_value_body){.address = record.done,
                                                  .value = record.number,
                                                  .width_bytes = sizeof(uint64_t),
                                                  .condition = TESSERA_CONDITION_RECORDED};
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}
