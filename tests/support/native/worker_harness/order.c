/* Launches of many streams with waits between them, rings that become full, parameters of all
 * sizes. All memory is ordinary, so that the thread sanitizer observes it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "client.h"
#include "base/internal.h"

enum { STREAMS = 6, REQUESTS = 3000, THREADS = 5, MAX_BLOCKS = 700, SIZES = 5 };

static const uint32_t SIZES_BYTES[SIZES] = {24, 136, 137, 392, 4096};

static client c;
static uint64_t kernels[SIZES];
static bool finished[STREAMS][REQUESTS + 1]; /* written by that launch, read by those that wait */
static uint64_t failures;
static uint32_t visits[STREAMS][MAX_BLOCKS];

/* First bytes of every parameter block; the rest is filled with `seed`. */
typedef struct parameters {
  uint64_t value;
  uint32_t stream;
  uint32_t bytes;
  uint32_t seed;
  uint32_t awaited_stream;
} parameters;

static uint64_t awaited_value(const parameters *p) {
  /* Streams wait only for lower ones, for a value that was enqueued before. */
  return p->awaited_stream < p->stream ? p->value : 0;
}

static void fail(void) { __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED); }

static void check_launch(const tessera_launch_context *launch, const uint8_t *bytes,
                         uint64_t first, uint64_t end, tessera_thread_state *thread) {
  parameters p;
  memcpy(&p, bytes, sizeof p);
  for (uint32_t i = sizeof p; i < p.bytes; i++)
    if (bytes[i] != (uint8_t)(p.seed + i)) fail();
  if (((uintptr_t)bytes & 63) != 0) fail();
  /* Plain accesses: the sanitizer reports them unless completion orders them. */
  if (awaited_value(&p) && !finished[p.awaited_stream][awaited_value(&p)]) fail();
  if (p.value > 1 && !finished[p.stream][p.value - 1]) fail();
  for (uint64_t block = first; block < end; block++) {
    thread->current_block = block;
    visits[p.stream][block]++;
  }
  if (end == launch->grid[0]) finished[p.stream][p.value] = true;
}

static tessera_kernel_entry choose(uint64_t kernel) {
  (void)kernel;
  return check_launch;
}

static void *fill_stream(void *argument) {
  uint32_t stream = (uint32_t)(uintptr_t)argument;
  uint32_t random = stream * 7919 + 1;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    random = random * 1664525 + 1013904223;
    uint32_t size = (random >> 8) % SIZES, blocks = 1 + (random >> 12) % MAX_BLOCKS;
    if (i % 8 != 0) blocks = 1 + blocks % 3;
    uint8_t bytes[TESSERA_MAX_PARAMETER_BYTES];
    tessera_slot slot = client_slot(&c, stream, TESSERA_OPCODE_LAUNCH);
    parameters p = {.value = slot.value,
                    .stream = stream,
                    .bytes = SIZES_BYTES[size],
                    .seed = random >> 16,
                    .awaited_stream = stream ? (random >> 20) % stream : STREAMS};
    for (uint32_t k = sizeof p; k < p.bytes; k++) bytes[k] = (uint8_t)(p.seed + k);
    memcpy(bytes, &p, sizeof p);
    if (awaited_value(&p)) client_wait_on(&slot, p.awaited_stream, awaited_value(&p));
    client_launch(&c, stream, slot, kernels[size], blocks, bytes, p.bytes);
  }
  return NULL;
}

int main(void) {
  client_open(&c);
  /* One mapping for both sides: the thread sanitizer distinguishes memory by address. */
  tw.client = c.area;
  c.page = tw.page;
  /* The sanitizer's own memory occupies the aperture's addresses, and no chunk is mapped here. */
  tw.aperture_base = TESSERA_GUARD_BEFORE_BYTES;
  for (uint32_t i = 0; i < SIZES; i++) kernels[i] = kernel_add("check", SIZES_BYTES[i]);
  worker_start(THREADS, choose);
  pthread_t threads[STREAMS];
  for (uintptr_t s = 0; s < STREAMS; s++)
    CHECK(pthread_create(&threads[s], NULL, fill_stream, (void *)s) == 0);
  for (uint32_t s = 0; s < STREAMS; s++) CHECK(pthread_join(threads[s], NULL) == 0);
  for (uint32_t s = 0; s < STREAMS; s++) {
    CHECK(client_wait(&c, s, REQUESTS) == 0);
    CHECK(finished[s][REQUESTS]);
    CHECK(visits[s][0] == REQUESTS); /* every launch has a first block */
  }
  CHECK(__atomic_load_n(&failures, __ATOMIC_RELAXED) == 0);
  tessera_worker_stats stats;
  tessera_worker_get_stats(&stats);
  CHECK(stats.launches == (uint64_t)STREAMS * REQUESTS);
  for (uint32_t i = 0; i < SIZES; i++) CHECK(tessera_worker_remove_kernel(kernels[i]) == 0);
  CHECK(tessera_worker_remove_kernel(kernels[0]) < 0 && !tessera_worker_kernel_runs(kernels[0]));
  tessera_worker_stop();
  printf("ok\n");
  return 0;
}
