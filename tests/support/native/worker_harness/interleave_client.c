/* Threads of a program that use a context within the rules of the client library. */
#include "schedules.h"

#include <string.h>

#include "interleave.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

enum { THREADS = 2, REQUESTS = 16 };

static struct tsr_context context;
static uint32_t at_work; /* threads */

static uint64_t last_of(uint32_t stream) { return atomic_load(&context.rings[stream].last); }

static void put_one(uint32_t stream) {
  const uint32_t other = (uint32_t)draw(STREAMS);
  const tessera_wait event = {.stream = other, .value = last_of(other)};
  const uint32_t rest = PARAMETER_BYTES - TESSERA_INLINE_PARAMETER_BYTES;
  const bool launch = draw(2);
  const uint32_t slots = launch ? (rest - 1) / TESSERA_SLOT_BYTES + 1 : 0;
  struct tsr_request request;
  tsr_ring_lock(&request, &context, stream);
  tsr_ring_begin(&request, launch ? TESSERA_OPCODE_LAUNCH : TESSERA_OPCODE_NOP, slots,
                 draw(2) ? &event : NULL);
  if (launch) {
    request.slot->body.launch = (tessera_launch_body){.kernel = 1,
                                                      .grid = {1, 1, 1},
                                                      .block = {1, 1, 1},
                                                      .parameter_bytes = PARAMETER_BYTES};
    memset(tsr_ring_continuation(&request, slots - 1), (uint8_t)request.value, TESSERA_SLOT_BYTES);
  }
  struct nature *nature = &natures[request.slot->order];
  nature->kind = (enum kind)draw(KINDS);
  /* Only requests that are already enqueued, so that all can end. */
  const uint32_t partner = (uint32_t)draw(STREAMS);
  if (partner != stream)
    nature->awaited = (tessera_wait){.stream = partner, .value = last_of(partner)};
  tsr_ring_commit(&request);
}

static void wait_somehow(void) {
  const uint32_t stream = (uint32_t)draw(STREAMS);
  switch (draw(4)) {
    case 0: tsr_wait_all(&context); break;
    case 1: tsr_wait_stream(&context, stream); break;
    case 2: tsr_wait_stream_open(&context, stream); break;
    default: tsr_wait(&context, stream, last_of(stream)); break;
  }
}

static void *client_main(void *unused) {
  (void)unused;
  const bool patient = draw(2);
  for (uint32_t i = 0; i < REQUESTS; i++) {
    put_one((uint32_t)draw(STREAMS));
    if (draw(patient ? 16 : 2) == 0) wait_somehow();
    if (draw(8) == 0) nanosleep(&(struct timespec){.tv_nsec = (long)draw(20000000) + 1}, NULL);
  }
  tsr_wait_all(&context);
  if (__atomic_sub_fetch(&at_work, 1, __ATOMIC_SEQ_CST) != 0) return NULL;
  for (uint32_t i = 0; i < STREAMS; i++)
    if (!tsr_stream_idle(&context, i)) end_run("who has waited for all finds a stream that is busy");
  stop_worker();
  end_run(NULL);
  return NULL;
}

void start_clients(void) {
  context.area = area;
  context.page = page;
  tsr_ring_setup(&context);
  area->stream_limit = STREAMS;
  atomic_store(&context.blocking[0], 2 * draw(1 << (STREAMS - 1)));
  at_work = THREADS;
  for (uint32_t i = 0; i < THREADS; i++) pthread_create(NULL, NULL, client_main, NULL);
}
