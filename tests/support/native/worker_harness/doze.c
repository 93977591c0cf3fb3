/* A worker on its client's CPU dozes: it wakes up without a doorbell and continues to doze while
 * that finds requests; when it no longer does, the worker naps, and the doorbell counts again. */
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>

#include "client.h"
#include "base/internal.h"
#include "base/platform.h"

enum { BATCH = 8, ROUNDS = 200 };
static const uint64_t PATIENCE_NS = UINT64_C(5000000000);
static client c;

static uint32_t sleeping(void) { return __atomic_load_n(&c.page->sleeping, __ATOMIC_SEQ_CST); }

/* Puts a request as libcuda does: without a doorbell for a worker that is awake or dozes. On a busy
 * machine the doze may have ended meanwhile; without a doorbell the worker would nap for ever. */
static void put_silently(void) {
  tessera_slot slot = client_slot(&c, 0, TESSERA_OPCODE_NOP);
  uint64_t head = c.area->head[0];
  c.area->rings[0].slots[head % TESSERA_SLOTS_PER_STREAM] = slot;
  __atomic_store_n(&c.area->head[0], head + 1, __ATOMIC_SEQ_CST);
  uint32_t state = sleeping();
  if (state != 0 && !(state & TESSERA_DOZING)) client_ring(&c);
}

/* Polls for the end of all requests, without being counted as a waiting client. */
static bool finished(uint64_t limit_ns) {
  uint64_t deadline = tw_now_ns() + limit_ns;
  while (__atomic_load_n(&c.page->timeline[0], __ATOMIC_ACQUIRE) < c.values[0]) {
    if (tw_now_ns() > deadline) return false;
    usleep(5);
  }
  return true;
}

static void await_deep_nap(void) {
  uint64_t deadline = tw_now_ns() + PATIENCE_NS;
  while (sleeping() == 0 || sleeping() & TESSERA_DOZING) CHECK(tw_now_ns() < deadline);
}

static void share_one_cpu(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
  c.area->cpu = sched_getcpu();
}

/* Returns the number of rounds in which a batch met a doze; `enough` of them end the loop. */
static int run_batches(int batch, int rounds, int enough) {
  int dozes = 0;
  for (int round = 0; round < rounds && dozes < enough; round++) {
    await_deep_nap();
    tessera_slot first = client_slot(&c, 0, TESSERA_OPCODE_NOP);
    client_put(&c, 0, &first); /* rings */
    uint64_t deadline = tw_now_ns() + 2000000;
    uint32_t state;
    while (((state = sleeping()) & TESSERA_DOZING) == 0 && tw_now_ns() < deadline)
      if (c.page->timeline[0] >= c.values[0] && state != 0) break; /* the worker naps at once */
    if (state & TESSERA_DOZING) {
      dozes++;
      for (int i = 0; i < batch; i++) put_silently();
    }
    CHECK(finished(PATIENCE_NS));
  }
  return dozes;
}

static tessera_kernel_entry choose(uint64_t handle) {
  (void)handle;
  return NULL;
}

int main(void) {
  static const uint64_t BASES[] = TESSERA_APERTURE_BASES;
  client_open(&c);
  c.area->stream_limit = 1;
  share_one_cpu();
  CHECK(tessera_worker_reserve(BASES[0]) == 0);
  worker_start(1, choose);
  /* Only every second batch meets a doze, since the doze after one stays empty. On a busy
   * machine this client misses most of them, so it may take more rounds. Dozes that never pay
   * are still detected: at last one in 256 naps is a doze, which would need more than five times
   * as many rounds. */
  int paying = run_batches(BATCH, 5 * ROUNDS, ROUNDS / 4);
  int idle = run_batches(0, ROUNDS, ROUNDS);
  tessera_worker_stop();
  printf("ok: %d batches met a doze, %d of %d when dozes did not pay\n", paying, idle, ROUNDS);
  CHECK(paying == ROUNDS / 4);
  CHECK(idle < ROUNDS / 8);
  return 0;
}
