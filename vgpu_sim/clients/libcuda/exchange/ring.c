/* Writing requests into rings. wait.c waits for them. */
#include "exchange/ring.h"

#include "exchange/doorbell.h"
#include "exchange/list.h"
#include "exchange/wait.h"

void tsr_ring_setup(struct tsr_context *context) {
  context->area->magic = TESSERA_CLIENT_AREA_MAGIC;
  context->area->version = TESSERA_ABI_VERSION;
  context->area->cpu = -1;
  context->area->stream_limit = 1;
  context->streams[0] = 1; /* the legacy stream */
  context->cooperative = (tessera_wait){0};
  for (uint32_t i = 0; i < TESSERA_MAX_TIMESTAMPS; i++) context->free_timestamps[i] = (uint16_t)i;
  context->free_count = TESSERA_MAX_TIMESTAMPS;
}

void tsr_ring_quiesce(struct tsr_context *context) {
  for (uint32_t i = 0; i <= TSR_LIST_RING; i++) {
    pthread_mutex_lock(&context->rings[i].lock);
    pthread_mutex_unlock(&context->rings[i].lock);
  }
}

static uint64_t last_of(const struct tsr_context *context, uint32_t stream) {
  return atomic_load_explicit(&context->rings[stream].last, memory_order_acquire);
}

void tsr_ring_lock(struct tsr_request *request, struct tsr_context *context, uint32_t stream) {
  struct tsr_ring *ring = &context->rings[stream];
  pthread_mutex_lock(&ring->lock);
  *request = (struct tsr_request){
      .context = context,
      .stream = stream,
      .head = ring->head,
      .value = atomic_load_explicit(&ring->last, memory_order_relaxed),
  };
}

void tsr_ring_unlock(struct tsr_request *request) {
  pthread_mutex_unlock(&request->context->rings[request->stream].lock);
}

struct waits {
  uint32_t count;
  tessera_wait list[TESSERA_MAX_STREAMS + 1];
};

static void add_wait(struct waits *waits, const struct tsr_context *context, uint32_t stream,
                     uint64_t value) {
  if (tsr_reached(context, stream, value)) return;
  waits->list[waits->count++] = (tessera_wait){.stream = stream, .value = value};
}

static void gather(struct waits *waits, struct tsr_context *context, uint32_t stream,
                   const tessera_wait *also) {
  waits->count = 0;
  if (also && also->stream != stream) add_wait(waits, context, also->stream, also->value);
  if (stream != TSR_LEGACY_STREAM) {
    if (!tsr_is_blocking(context, stream)) return;
    struct tsr_ring *ring = &context->rings[stream];
    const uint64_t legacy = last_of(context, TSR_LEGACY_STREAM);
    if (legacy <= ring->legacy_waited) return;
    ring->legacy_waited = legacy;
    add_wait(waits, context, TSR_LEGACY_STREAM, legacy);
    return;
  }
  for (uint32_t word = 0; word < 2; word++) {
    uint64_t bits = atomic_load_explicit(&context->blocking[word], memory_order_acquire);
    for (; bits; bits &= bits - 1) {
      const uint32_t other = 64 * word + (uint32_t)__builtin_ctzll(bits);
      struct tsr_ring *ring = &context->rings[other];
      const uint64_t last = last_of(context, other);
      if (last <= ring->waited_by_legacy) continue;
      ring->waited_by_legacy = last;
      add_wait(waits, context, other, last);
    }
  }
}

/* Publish the slots filled so far to the worker, and wake it. */
static void show(struct tsr_request *request) {
  struct tsr_context *context = request->context;
  struct tsr_ring *ring = &context->rings[request->stream];
  tessera_client_area *area = context->area;
  ring->head = request->head;
  __atomic_store_n(&area->head[request->stream], request->head, __ATOMIC_RELEASE);
  atomic_store_explicit(&ring->last, request->value, memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);
  tsr_rang = tsr_ring_for_request(context, request->stream);
}

static CUresult make_room(struct tsr_request *request, uint32_t slots) {
  const tessera_worker_page *page = request->context->page;
  const uint64_t *tail = &page->tail[request->stream];
  const uint64_t used = request->head - __atomic_load_n(tail, __ATOMIC_ACQUIRE);
  if (__builtin_expect(used + slots <= TESSERA_SLOTS_PER_STREAM, 1)) return CUDA_SUCCESS;
  show(request);
  return tsr_wait_room(request->context, request->stream, request->head + slots);
}

static tessera_slot *next_slot(struct tsr_request *request, uint16_t opcode) {
  tessera_ring *ring = &request->context->area->rings[request->stream];
  tessera_slot *slot = &ring->slots[request->head++ % TESSERA_SLOTS_PER_STREAM];
  slot->opcode = opcode;
  slot->wait_count = 0;
  slot->continuation_slots = 0;
  slot->order = atomic_fetch_add_explicit(&request->context->order, 1, memory_order_relaxed);
  slot->value = ++request->value;
  return slot;
}

static uint32_t put_waits(tessera_slot *slot, const struct waits *waits, uint32_t from) {
  while (from < waits->count && slot->wait_count < TESSERA_MAX_WAITS)
    slot->waits[slot->wait_count++] = waits->list[from++];
  return from;
}

/* Whether a request may be enqueued while streams capture: not in a stream that captures itself,
 * and not in the legacy stream, for which blocking streams would have to wait. */
static CUresult check_captures(const struct tsr_request *request) {
  struct tsr_context *context = request->context;
  if (__builtin_expect(atomic_load_explicit(&context->capturing[request->stream],
                                            memory_order_relaxed), 0)) {
    atomic_store(&context->capture_misused[request->stream], true);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (request->stream != TSR_LEGACY_STREAM || atomic_load(&context->blocking_captures) == 0)
    return CUDA_SUCCESS;
  atomic_store(&context->capture_misused[TSR_LEGACY_STREAM], true);
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

static CUresult begin_in_list(struct tsr_request *request, uint16_t opcode,
                              uint32_t continuation_slots) {
  CUresult result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (tsr_object_lives(request->context)) {
    request->slot = tsr_list_add(tsr_list_recording(), opcode, continuation_slots);
    result = request->slot ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) tsr_ring_unlock(request);
  return result;
}

CUresult tsr_ring_begin(struct tsr_request *request, uint16_t opcode, uint32_t continuation_slots,
                        const tessera_wait *also) {
  if (__builtin_expect(request->stream == TSR_LIST_RING, 0))
    return begin_in_list(request, opcode, continuation_slots);
  CUresult checked = check_captures(request);
  if (__builtin_expect(!tsr_object_lives(request->context), 0))
    checked = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (checked == CUDA_SUCCESS) return tsr_ring_begin_next(request, opcode, continuation_slots, also);
  tsr_ring_unlock(request);
  return checked;
}

CUresult tsr_ring_begin_next(struct tsr_request *request, uint16_t opcode,
                             uint32_t continuation_slots, const tessera_wait *also) {
  struct waits waits;
  gather(&waits, request->context, request->stream, also);
  uint32_t put = 0;
  CUresult result;
  while (waits.count - put > TESSERA_MAX_WAITS) {
    result = make_room(request, 1);
    if (result != CUDA_SUCCESS) goto failed;
    put = put_waits(next_slot(request, TESSERA_OPCODE_NOP), &waits, put);
  }
  result = make_room(request, 1 + continuation_slots);
  if (result != CUDA_SUCCESS) goto failed;
  request->slot = next_slot(request, opcode);
  put_waits(request->slot, &waits, put);
  request->slot->continuation_slots = (uint8_t)continuation_slots;
  request->head += continuation_slots;
  return CUDA_SUCCESS;
failed: /* the context has failed, so the waits do not matter any more */
  tsr_ring_unlock(request);
  return result;
}

uint8_t *tsr_ring_continuation(const struct tsr_request *request, uint32_t i) {
  if (request->stream == TSR_LIST_RING) return (uint8_t *)(request->slot + 1 + i);
  tessera_ring *ring = &request->context->area->rings[request->stream];
  const uint64_t first = request->head - request->slot->continuation_slots;
  return (uint8_t *)&ring->slots[(first + i) % TESSERA_SLOTS_PER_STREAM];
}

uint64_t tsr_ring_commit(struct tsr_request *request) {
  const uint64_t value = request->value;
  if (__builtin_expect(request->stream != TSR_LIST_RING, 1)) show(request);
  tsr_ring_unlock(request);
  return value;
}

CUresult tsr_ring_wait(struct tsr_context *context, uint32_t stream, const tessera_wait *waits,
                       uint32_t count) {
  CUresult result = CUDA_SUCCESS;
  do {
    struct tsr_request request;
    tsr_ring_lock(&request, context, stream);
    result = tsr_ring_begin(&request, TESSERA_OPCODE_NOP, 0, NULL);
    if (result != CUDA_SUCCESS) return result;
    tessera_slot *slot = request.slot;
    while (count > 0 && slot->wait_count < TESSERA_MAX_WAITS)
      slot->waits[slot->wait_count++] = waits[--count];
    tsr_ring_commit(&request);
  } while (count > 0);
  return result;
}

uint64_t tsr_ring_last(const struct tsr_context *context, uint32_t stream) {
  return last_of(context, stream);
}

bool tsr_ring_captures(struct tsr_context *context) {
  bool found = false;
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++) {
    if (!atomic_load_explicit(&context->capturing[i], memory_order_relaxed)) continue;
    atomic_store(&context->capture_misused[i], true);
    found = true;
  }
  return found;
}

CUresult tsr_ring_check_capture(struct tsr_context *context, uint32_t stream) {
  if (!atomic_load_explicit(&context->capturing[stream], memory_order_relaxed)) return CUDA_SUCCESS;
  atomic_store(&context->capture_misused[stream], true);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
