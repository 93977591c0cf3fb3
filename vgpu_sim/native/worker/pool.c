/* The thread pool: a launch is one ticket that threads draw runs of blocks from.
 *
 * The ticket is `generation << 32 | next run`. A thread reads the job of the ticket's generation and
 * then draws by compare-and-swap: if the job was replaced in between, so was the generation, and the
 * swap fails. Job fields are relaxed atomics because such a stale read is legal. A launch waits for
 * its blocks, never for threads: one that sleeps through a launch costs nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "internal.h"
#include "platform.h"

enum { JOBS = 64, MAX_HELPERS = TESSERA_MAX_WORKER_THREADS - 1, RUNS_PER_LAUNCH = 256 };

static const uint64_t HELPER_SPIN_NS = 2000;
static const uint64_t LAUNCH_SPIN_NS = 5000;

typedef struct job {
  tessera_kernel_entry entry;
  const tessera_launch_context *launch;
  const uint8_t *parameters;
  uint64_t blocks;
  uint64_t run_blocks;
  uint32_t runs;
  _Alignas(64) uint32_t done;    /* runs finished; a futex of the launching thread */
  uint32_t launcher_sleeps;
} job;

static job jobs[JOBS];
static _Alignas(64) uint64_t ticket;
static _Alignas(64) uint32_t bell; /* futex of sleeping helpers */
static uint32_t asleep;
static uint32_t stopping;
static uint32_t helper_count;
static uint32_t generation; /* launching thread only */
static pthread_t helpers[MAX_HELPERS];

#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

static void run_blocks(tessera_kernel_entry entry, const tessera_launch_context *launch,
                       const uint8_t *parameters, uint64_t first, uint64_t end) {
  thread_activity *self = &tw_current;
  self->kernel = launch->kernel;
  self->parameters = parameters;
  self->state.current_block = first;
  self->kind = ACTIVITY_KERNEL;
  entry(launch, parameters, first, end, &self->state);
  self->kind = ACTIVITY_NONE;
  if (self->state.status != 0)
    tw_die_of_trap(launch->kernel, (uint64_t)(uintptr_t)entry, &self->state, NULL);
}

static void draw_runs(uint64_t drawn) {
  uint32_t mine = (uint32_t)(drawn >> 32);
  for (;;) {
    job *j = &jobs[mine % JOBS];
    uint32_t run = (uint32_t)drawn;
    uint32_t runs = GET(j->runs);
    tessera_kernel_entry entry = GET(j->entry);
    const tessera_launch_context *launch = GET(j->launch);
    const uint8_t *parameters = GET(j->parameters);
    uint64_t blocks = GET(j->blocks), run_length = GET(j->run_blocks);
    if (run >= runs) return;
    if (!__atomic_compare_exchange_n(&ticket, &drawn, drawn + 1, true, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      if ((uint32_t)(drawn >> 32) != mine) return;
      continue;
    }
    uint64_t first = run * run_length;
    uint64_t end = first + run_length < blocks ? first + run_length : blocks;
    run_blocks(entry, launch, parameters, first, end);
    if (__atomic_add_fetch(&j->done, 1, __ATOMIC_SEQ_CST) == runs &&
        __atomic_load_n(&j->launcher_sleeps, __ATOMIC_SEQ_CST))
      tw_futex_wake_all(&j->done);
    drawn = __atomic_load_n(&ticket, __ATOMIC_ACQUIRE);
    if ((uint32_t)(drawn >> 32) != mine) return;
  }
}

/* Returns the next ticket of another generation than `last`; 0 when the pool ends. */
static uint64_t next_ticket(uint32_t last) {
  uint64_t deadline = tw_now_ns() + HELPER_SPIN_NS;
  for (;;) {
    uint64_t seen = __atomic_load_n(&ticket, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&stopping, __ATOMIC_RELAXED)) return 0;
    if ((uint32_t)(seen >> 32) != last) return seen;
    tw_relax();
    if (tw_now_ns() < deadline) continue;
    uint32_t before = __atomic_load_n(&bell, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
    if ((uint32_t)(__atomic_load_n(&ticket, __ATOMIC_SEQ_CST) >> 32) == last &&
        !__atomic_load_n(&stopping, __ATOMIC_SEQ_CST))
      tw_futex_wait(&bell, before, 0);
    __atomic_sub_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
    deadline = tw_now_ns() + HELPER_SPIN_NS;
  }
}

static void *helper_main(void *unused) {
  (void)unused;
  tw_fault_prepare_thread();
  uint64_t seen = 0;
  while ((seen = next_ticket((uint32_t)(seen >> 32))) != 0) draw_runs(seen);
  tw_cta_end_thread();
  return NULL;
}

static void wake_helpers(void) {
  if (__atomic_load_n(&asleep, __ATOMIC_SEQ_CST) == 0) return;
  __atomic_add_fetch(&bell, 1, __ATOMIC_SEQ_CST);
  tw_futex_wake_all(&bell);
}

static void wait_until_done(job *j, uint32_t runs) {
  uint32_t done;
  uint64_t deadline = 0;
  for (uint32_t turn = 0; (done = __atomic_load_n(&j->done, __ATOMIC_ACQUIRE)) < runs; turn++) {
    if (turn < 64) {
      tw_relax();
      continue;
    }
    /* The helper may be waiting for this very CPU. */
    uint64_t now = tw_now_ns();
    if (deadline == 0) deadline = now + LAUNCH_SPIN_NS;
    if (now < deadline) {
      sched_yield();
      continue;
    }
    __atomic_store_n(&j->launcher_sleeps, 1, __ATOMIC_SEQ_CST);
    done = __atomic_load_n(&j->done, __ATOMIC_SEQ_CST);
    if (done < runs) tw_futex_wait(&j->done, done, 0);
    __atomic_store_n(&j->launcher_sleeps, 0, __ATOMIC_RELAXED);
  }
}

void tw_pool_run(tessera_kernel_entry entry, const tessera_launch_context *launch,
                 const uint8_t *parameters, uint64_t blocks) {
  if (blocks == 1 || helper_count == 0) {
    run_blocks(entry, launch, parameters, 0, blocks);
    return;
  }
  /* Runs are short enough to balance the load and long enough to make drawing cheap. */
  uint64_t run_length = (blocks + RUNS_PER_LAUNCH - 1) / RUNS_PER_LAUNCH;
  uint32_t runs = (uint32_t)((blocks + run_length - 1) / run_length);
  if (++generation == 0) generation = 1; /* 0 says that the pool ends */
  job *j = &jobs[generation % JOBS];
  PUT(j->entry, entry);
  PUT(j->launch, launch);
  PUT(j->parameters, parameters);
  PUT(j->blocks, blocks);
  PUT(j->run_blocks, run_length);
  PUT(j->runs, runs);
  PUT(j->done, 0);
  uint64_t mine = (uint64_t)generation << 32;
  __atomic_store_n(&ticket, mine, __ATOMIC_SEQ_CST);
  wake_helpers();
  draw_runs(mine);
  wait_until_done(j, runs);
}

int tw_pool_start(uint32_t count) {
  if (count > MAX_HELPERS) return -EINVAL;
  __atomic_store_n(&stopping, 0, __ATOMIC_SEQ_CST);
  for (helper_count = 0; helper_count < count; helper_count++) {
    int status = pthread_create(&helpers[helper_count], NULL, helper_main, NULL);
    if (status != 0) {
      tw_pool_stop();
      return -status;
    }
  }
  return 0;
}

void tw_pool_stop(void) {
  __atomic_store_n(&stopping, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&bell, 1, __ATOMIC_SEQ_CST);
  tw_futex_wake_all(&bell);
  while (helper_count > 0) pthread_join(helpers[--helper_count], NULL);
}
