/* The client's rings with a worker that is as unfriendly as the protocol allows: it runs any
 * request whose waits are reached, in random order over the streams, and checks for each that
 * all its predecessors have been executed. At times it sleeps until the doorbell rings.
 *
 * Argument 1: seed; 2: requests; 3: producers (one checks the order, more check the memory). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exchange/doorbell.h"
#include "exchange/hang.h"
#include "exchange/health.h"
#include "exchange/kernel_output.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

enum { STREAMS = 12, BLOCKING = 6, MAX_REQUESTS = 1 << 18 };

static struct tsr_context *context;
static tessera_worker_page page;
static int failures;
static uint32_t requests, producers;
static uint32_t free_runs; /* how often a request ran before an earlier one of the legacy stream */
static _Atomic uint32_t running;

/* By sequence number of the request; 0 is no request. */
static struct {
  uint8_t stream;
  uint32_t after; /* the request whose event it waits for */
} plan[MAX_REQUESTS];
static _Atomic uint8_t done[MAX_REQUESTS];
static int64_t counted[MAX_REQUESTS + 1]; /* tessera_slot.order of the request, plus 1 */

CUresult tsr_context_error(struct tsr_context *c) {
  (void)c;
  return CUDA_SUCCESS;
}
CUresult tsr_context_lose(struct tsr_context *c) {
  (void)c;
  abort();
}
bool tsr_context_hung_up(struct tsr_context *c) {
  (void)c;
  return false;
}

void tsr_kernel_output_print(struct tsr_context *c) { (void)c; }

void tsr_hang_look(struct tsr_context *c, uint32_t stream, struct tsr_hang *hang) {
  (void)c;
  (void)stream;
  (void)hang;
}

static void fail(const char *what, uint32_t sequence) {
  fprintf(stderr, "request %u in stream %u: %s\n", sequence, plan[sequence].stream, what);
  failures++;
}

static bool is_blocking(uint32_t stream) { return stream >= 1 && stream <= BLOCKING; }

/* The only producer's program order determines which requests must be complete first. */
static void check_order(uint32_t sequence) {
  const uint32_t stream = plan[sequence].stream;
  for (uint32_t other = sequence - 1; other > 0 && other + 3000 > sequence; other--) {
    if (done[other]) continue;
    const uint32_t from = plan[other].stream;
    if (from == stream) fail("overtook its own stream", sequence);
    if (stream == 0 && is_blocking(from)) fail("legacy overtook a blocking stream", sequence);
    if (from == 0 && is_blocking(stream)) fail("a blocking stream overtook legacy", sequence);
    free_runs += from == 0 && stream > BLOCKING;
  }
  if (plan[sequence].after && !done[plan[sequence].after]) fail("overtook its event", sequence);
}

static uint64_t tails[STREAMS], values[STREAMS];

static bool runnable(const tessera_slot *slot) {
  for (uint32_t i = 0; i < slot->wait_count; i++)
    if (__atomic_load_n(&page.timeline[slot->waits[i].stream], __ATOMIC_ACQUIRE) <
        slot->waits[i].value)
      return false;
  return true;
}

static bool step(uint32_t stream) {
  tessera_client_area *area = context->area;
  const uint64_t head = __atomic_load_n(&area->head[stream], __ATOMIC_ACQUIRE);
  if (head == tails[stream]) return false;
  if (head - tails[stream] > TESSERA_SLOTS_PER_STREAM) fail("head out of range", 0);
  const tessera_slot slot = area->rings[stream].slots[tails[stream] % TESSERA_SLOTS_PER_STREAM];
  if (slot.value != values[stream] + 1) fail("value is not the next", 0);
  if (slot.wait_count > TESSERA_MAX_WAITS) fail("too many waits", 0);
  if (!runnable(&slot)) return false;
  if (slot.opcode == TESSERA_OPCODE_LAUNCH) {
    const uint32_t sequence = (uint32_t)slot.body.launch.kernel;
    const uint32_t first = (uint32_t)(tails[stream] + 1);
    for (uint32_t i = 0; i < slot.continuation_slots; i++) {
      const uint8_t *bytes =
          (const uint8_t *)&area->rings[stream].slots[(first + i) % TESSERA_SLOTS_PER_STREAM];
      if (bytes[0] != (uint8_t)sequence || bytes[255] != (uint8_t)i) fail("wrong bytes", sequence);
    }
    if (producers == 1) {
      check_order(sequence);
      counted[sequence] = (int64_t)slot.order + 1;
      if (counted[sequence] <= counted[sequence - 1]) fail("counted before its elder", sequence);
      if (counted[sequence + 1] && counted[sequence] >= counted[sequence + 1])
        fail("counted after its younger", sequence);
      done[sequence] = 1;
    }
  }
  tails[stream] += 1 + slot.continuation_slots;
  __atomic_store_n(&page.tail[stream], tails[stream], __ATOMIC_RELEASE);
  __atomic_store_n(&page.timeline[stream], ++values[stream], __ATOMIC_RELEASE);
  __atomic_fetch_add(&page.progress, 1, __ATOMIC_RELEASE);
  return true;
}

static bool any_news(void) {
  for (uint32_t i = 0; i < STREAMS; i++)
    if (__atomic_load_n(&context->area->head[i], __ATOMIC_SEQ_CST) != tails[i]) return true;
  return false;
}

/* Sleeps long enough to detect a doorbell that does not ring. A doze takes as long, since all
 * producers wait for a request sooner or later. */
static void nap(uint32_t number, uint32_t how) {
  const uint32_t bell = __atomic_load_n(&context->area->bell, __ATOMIC_SEQ_CST);
  const struct timespec limit = {.tv_sec = 10};
  __atomic_store_n(&page.sleeping, number | how, __ATOMIC_SEQ_CST);
  long slept = 0;
  while (slept == 0 && !any_news() &&
         __atomic_load_n(&context->area->bell, __ATOMIC_SEQ_CST) == bell)
    slept = syscall(SYS_futex, &context->area->bell, FUTEX_WAIT, bell, &limit, NULL, 0);
  __atomic_store_n(&page.sleeping, 0, __ATOMIC_SEQ_CST);
  if (slept == 0 || errno != ETIMEDOUT) return;
  fail(how ? "no thread ended a doze" : "no doorbell", 0);
  exit(1); /* end at the first failure, not after thousands of such naps */
}

/* One stream at a time is delayed, as if its request took long; at times all streams are
 * delayed, so that rings fill up. */
static void *worker(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  uint32_t idle = 0, held = 0, naps = 0;
  while (atomic_load(&running) || idle < 4 * STREAMS) {
    if (rand_r(&seed) % 3000 == 0) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (rand_r(&seed) % 20000 == 0) held = (uint32_t)rand_r(&seed) % STREAMS;
    if (rand_r(&seed) % 50 == 0 && atomic_load(&running) && !any_news())
      nap(++naps, rand_r(&seed) % 2 ? TESSERA_DOZING : 0);
    const uint32_t stream = (uint32_t)rand_r(&seed) % STREAMS;
    if (stream == held && atomic_load(&running)) continue;
    idle = step(stream) ? 0 : idle + 1;
  }
  return NULL;
}

static uint64_t enqueue(uint32_t stream, uint32_t sequence, uint32_t more,
                        const tessera_wait *also) {
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  if (tsr_ring_begin(&request, TESSERA_OPCODE_LAUNCH, more, also) != CUDA_SUCCESS) abort();
  request.slot->body.launch.kernel = sequence;
  for (uint32_t i = 0; i < more; i++) {
    uint8_t *bytes = tsr_ring_continuation(&request, i);
    bytes[0] = (uint8_t)sequence;
    bytes[255] = (uint8_t)i;
  }
  return tsr_ring_commit(&request);
}

/* After a wait the client may copy: all requests that the stream's next request follows are
   done. */
static void check_wait(uint32_t stream, uint32_t last) {
  if (tsr_wait_stream_open(context, stream) != CUDA_SUCCESS) abort();
  for (uint32_t other = last; other > 0 && other + 3000 > last; other--) {
    const uint32_t from = plan[other].stream;
    const bool follows = from == stream || (from == 0 && is_blocking(stream)) ||
                         (stream == 0 && is_blocking(from));
    if (follows && !done[other]) fail("a wait ended before it", other);
  }
}

static void *producer(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  tessera_wait event = {0};
  uint32_t event_request = 0;
  for (uint32_t i = 1; i <= requests; i++) {
    const uint32_t stream = rand_r(&seed) % 4 ? (uint32_t)rand_r(&seed) % STREAMS : 0;
    const uint32_t more = rand_r(&seed) % 10 ? 0 : (uint32_t)rand_r(&seed) % 17;
    const bool waits = event_request && rand_r(&seed) % 5 == 0;
    plan[i].stream = (uint8_t)stream;
    plan[i].after = waits ? event_request : 0;
    const uint64_t value = enqueue(stream, i, more, waits ? &event : NULL);
    if (rand_r(&seed) % 7 == 0) {
      event = (tessera_wait){.stream = stream, .value = value};
      event_request = i;
    }
    /* The first half waits often, the second so rarely that rings fill up. */
    if (rand_r(&seed) % (i < requests / 2 ? 15 : 400) == 0)
      check_wait(rand_r(&seed) % 2 ? 0 : (uint32_t)rand_r(&seed) % STREAMS, i);
  }
  return NULL;
}

/* Several producers share the plan, so they may not write it. */
static void *hammer(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  for (uint32_t i = 1; i <= requests; i++) {
    const uint32_t stream = (uint32_t)rand_r(&seed) % STREAMS;
    const uint64_t value = enqueue(stream, i, rand_r(&seed) % 20 ? 0 : 16, NULL);
    if (rand_r(&seed) % 20 == 0 && tsr_wait(context, stream, value) != CUDA_SUCCESS) abort();
    if (rand_r(&seed) % 100 == 0 && tsr_wait_all(context) != CUDA_SUCCESS) abort();
  }
  return NULL;
}

/* The client rings once for a nap. It does not ring for a request during a doze unless a call
 * waits for the request, nor for a stream whose last request is running. */
static void check_bell(void) {
  static const struct {
    uint32_t sleeping, rings;
    uint64_t occupied;
  } STEPS[] = {{0, 0, 0}, {1 | TESSERA_DOZING, 0, 0}, {2, 1, 0}, {2, 1, 0}, {3 | TESSERA_DOZING, 1, 0},
               {4, 1, 2}, {4, 2, 4}, {5, 3, 1}};
  for (uint32_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
    page.sleeping = STEPS[i].sleeping;
    page.occupied[0] = STEPS[i].occupied;
    const uint64_t value = enqueue(1, i + 1, 0, NULL);
    if (context->area->bell != STEPS[i].rings) fail("wrong number of rings", i);
    while (values[1] < value) step(1);
  }
  page.sleeping = 0;
  page.occupied[0] = 0;
  memset((void *)done, 0, sizeof done);
  memset(counted, 0, sizeof counted);
}

int main(int count, char **arguments) {
  if (count != 4) return 2;
  const uintptr_t seed = (uintptr_t)atoi(arguments[1]);
  requests = (uint32_t)atoi(arguments[2]);
  producers = (uint32_t)atoi(arguments[3]);
  if (requests >= MAX_REQUESTS || producers > 8) return 2;
  context = tsr_object_new(TSR_CONTEXT);
  context->area = calloc(1, sizeof *context->area);
  context->page = &page;
  page.cpu = -2;
  tsr_ring_setup(context);
  tsr_object_publish(TSR_CONTEXT, context);
  context->area->stream_limit = STREAMS;
  for (uint32_t i = 1; i <= BLOCKING; i++) context->blocking[0] |= UINT64_C(1) << i;
  check_bell();
  running = 1;
  pthread_t consumer, threads[8];
  pthread_create(&consumer, NULL, worker, (void *)(seed + 100));
  for (uintptr_t i = 0; i < producers; i++)
    pthread_create(&threads[i], NULL, producers == 1 ? producer : hammer, (void *)(seed + i));
  for (uint32_t i = 0; i < producers; i++) pthread_join(threads[i], NULL);
  if (tsr_wait_all(context) != CUDA_SUCCESS) abort();
  running = 0;
  __atomic_fetch_add(&context->area->bell, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &context->area->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
  pthread_join(consumer, NULL);
  printf("failures %d, free %d\n", failures, free_runs > 0);
  return failures != 0;
}
