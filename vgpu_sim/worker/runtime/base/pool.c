/* The thread pool: helpers take runs of blocks from the launches of all runners.
 *
 * A runner has one job at a time. The job's ticket is `generation << 32 | next run`. A thread
 * reads the job and then takes a run by compare-and-swap. If the job was replaced in between, so
 * was the generation, and the swap fails. Such a stale read is legal, so the job's fields are
 * relaxed atomics. A launch waits for its blocks, never for threads: a helper that sleeps
 * through a launch costs nothing.
 *
 * Helpers take runs of the oldest launch that has blocks left. No launch starves, and a kernel
 * that waits for another stream's kernel makes progress, because each runner runs blocks of its
 * own launch. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/internal.h"
#include "base/platform.h"

enum { MAX_HELPERS = TESSERA_MAX_WORKER_THREADS - 1 };
/* Runs are short enough to balance the load, and long enough to make taking them cheap. They are
 * shorter in slow provisional code, which can be replaced only between two runs. */
enum { RUNS_PER_LAUNCH = 256, RUNS_PER_SLOW_LAUNCH = 4096 };

/* Waking a helper takes up to 20 us, and takes a CPU away from the client. So a runner begins a
 * short launch alone, for ALONE_NS. The runs are then short, so that the delay is small if the
 * launch takes longer than expected. */
static const uint64_t SOON_OVER_NS = 50000, ALONE_NS = 15000;
enum { LEAST_RUNS = 16, LEAST_RUN_NS = 1000 }; /* of a short launch */

static const uint64_t HELPER_SPIN_NS = 2000;
static const uint64_t LAUNCH_SPIN_NS = 5000;

typedef struct job {
  _Alignas(64) uint64_t ticket; /* generation 0: no job yet */
  uint64_t age;                 /* how many launches the pool had before this one */
  tessera_kernel_entry entry;
  const tessera_launch_context *launch;
  const uint8_t *parameters;
  uint64_t blocks;
  uint64_t run_blocks;
  uint32_t runs;
  uint32_t threads;           /* that may take part: the launching one, and the first helpers */
  uint32_t spare;             /* the first helper skips this job and leaves its CPU to a compiler */
  uint32_t generation;        /* used by the runner only */
  _Alignas(64) uint32_t done; /* number of finished runs; a futex of the launching thread */
  uint32_t launcher_sleeps;
} job;

static job jobs[TW_RUNNERS];
static _Alignas(64) uint64_t launches; /* atomic: their number, the age of the next */
static _Alignas(64) uint32_t bell;     /* futex of sleeping helpers */
static uint32_t asleep;
static uint32_t stopping;
static uint32_t helper_count;
static uint32_t job_limit; /* atomic: one more than the highest runner that has launched */
static pthread_t helpers[MAX_HELPERS];
static void (*end_thread)(void); /* frees what the thread has needed to run blocks */

#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
/* A thread that sees a new field of a job no longer sees the previous job's ticket. */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

static void run_blocks(tessera_kernel_entry entry, const tessera_launch_context *launch,
                       const uint8_t *parameters, uint64_t first, uint64_t end) {
  thread_activity *self = &tw_current;
  self->kernel = launch->kernel;
  self->parameters = parameters;
  self->launch = launch;
  self->state.current_block = first;
  self->kind = ACTIVITY_KERNEL;
  entry(launch, parameters, first, end, &self->state);
  self->kind = ACTIVITY_NONE;
  if (self->state.status != 0)
    tw_die_of_trap(launch->kernel, (uint64_t)(uintptr_t)entry, &self->state, NULL);
  self->launch = NULL;
}

static __thread struct {
  job *job; /* NULL: its blocks are not shared with other threads */
  uint32_t generation;
  uint32_t claimed; /* runs taken in addition to the one with which it started */
} mine;

bool tw_pool_claim(uint64_t *first, uint64_t *end) {
  job *const j = mine.job;
  if (j == NULL) return false;
  uint64_t drawn = __atomic_load_n(&j->ticket, __ATOMIC_ACQUIRE);
  /* The job stays while one of its runs is executed: only the launching thread can replace it. */
  while ((uint32_t)(drawn >> 32) == mine.generation && (uint32_t)drawn < GET(j->runs)) {
    if (!__atomic_compare_exchange_n(&j->ticket, &drawn, drawn + 1, true, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
      continue;
    const uint64_t run_length = GET(j->run_blocks), blocks = GET(j->blocks);
    *first = (uint32_t)drawn * run_length;
    *end = *first + run_length < blocks ? *first + run_length : blocks;
    mine.claimed++;
    return true;
  }
  return false;
}

static void wake_helpers(void) {
  if (__atomic_load_n(&asleep, __ATOMIC_SEQ_CST) == 0) return;
  __atomic_add_fetch(&bell, 1, __ATOMIC_SEQ_CST);
  tw_futex_wake_all(&bell);
}

/* Run the rest of a job whose ticket was `drawn`; wake the helpers at `wake_ns` (0: never). */
static void draw_runs(job *j, uint64_t drawn, uint64_t wake_ns) {
  const uint32_t generation_drawn = (uint32_t)(drawn >> 32);
  for (;;) {
    uint32_t run = (uint32_t)drawn;
    uint32_t runs = GET(j->runs);
    tessera_kernel_entry entry = GET(j->entry);
    const tessera_launch_context *launch = GET(j->launch);
    const uint8_t *parameters = GET(j->parameters);
    uint64_t blocks = GET(j->blocks), run_length = GET(j->run_blocks);
    if (run >= runs) return;
    if (wake_ns != 0 && tw_now_ns() >= wake_ns) {
      wake_helpers();
      wake_ns = 0;
    }
    if (!__atomic_compare_exchange_n(&j->ticket, &drawn, drawn + 1, true, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      if ((uint32_t)(drawn >> 32) != generation_drawn) return;
      continue;
    }
    uint64_t first = run * run_length;
    uint64_t end = first + run_length < blocks ? first + run_length : blocks;
    mine.job = j;
    mine.generation = generation_drawn;
    mine.claimed = 0;
    run_blocks(entry, launch, parameters, first, end);
    if (__atomic_add_fetch(&j->done, 1 + mine.claimed, __ATOMIC_SEQ_CST) == runs &&
        __atomic_load_n(&j->launcher_sleeps, __ATOMIC_SEQ_CST))
      tw_futex_wake_all(&j->done);
    drawn = __atomic_load_n(&j->ticket, __ATOMIC_ACQUIRE);
    if ((uint32_t)(drawn >> 32) != generation_drawn) return;
  }
}

/* Find the oldest job that has runs left, and its ticket. */
static job *find_job(uint32_t helper, uint64_t *ticket) {
  job *found = NULL;
  uint64_t oldest = UINT64_MAX;
  const uint32_t limit = __atomic_load_n(&job_limit, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < limit; i++) {
    const uint64_t seen = __atomic_load_n(&jobs[i].ticket, __ATOMIC_SEQ_CST);
    const uint64_t age = GET(jobs[i].age);
    if ((seen >> 32) == 0 || (uint32_t)seen >= GET(jobs[i].runs) || age >= oldest) continue;
    if (helper == 0 && GET(jobs[i].spare)) continue;
    if (helper + 1 >= GET(jobs[i].threads)) continue;
    oldest = age;
    found = &jobs[i];
    *ticket = seen;
  }
  return found;
}

/* Wait for a job; NULL when the pool ends. */
static job *next_job(uint32_t helper, uint64_t *ticket) {
  uint64_t deadline = tw_now_ns() + HELPER_SPIN_NS;
  for (;;) {
    if (__atomic_load_n(&stopping, __ATOMIC_RELAXED)) return NULL;
    job *found = find_job(helper, ticket);
    if (found != NULL) return found;
    tw_relax();
    if (tw_now_ns() < deadline) continue;
    uint32_t before = __atomic_load_n(&bell, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
    found = find_job(helper, ticket);
    if (found == NULL && !__atomic_load_n(&stopping, __ATOMIC_SEQ_CST))
      tw_futex_wait(&bell, before, 0);
    __atomic_sub_fetch(&asleep, 1, __ATOMIC_SEQ_CST);
    if (found != NULL) return found;
    deadline = tw_now_ns() + HELPER_SPIN_NS;
  }
}

static void *helper_main(void *index) {
  const uint32_t helper = (uint32_t)(uintptr_t)index;
  tw_fault_prepare_thread();
  uint64_t ticket = 0;
  for (job *j; (j = next_job(helper, &ticket)) != NULL;) draw_runs(j, ticket, 0);
  end_thread();
  return NULL;
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

static void raise_limit(uint32_t limit) {
  uint32_t before = __atomic_load_n(&job_limit, __ATOMIC_RELAXED);
  while (before < limit &&
         !__atomic_compare_exchange_n(&job_limit, &before, limit, true, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED)) {
  }
}

void tw_pool_run(const tw_work *work) {
  const uint64_t blocks = work->blocks;
  if (blocks == 1 || (helper_count == 0 && !work->spare)) {
    mine.job = NULL;
    run_blocks(work->entry, work->launch, work->parameters, 0, blocks);
    return;
  }
  const bool soon_over = work->expected_ns <= SOON_OVER_NS && !work->one_by_one;
  const uint64_t short_runs = work->expected_ns / LEAST_RUN_NS;
  const uint64_t most_runs = work->spare ? RUNS_PER_SLOW_LAUNCH
                             : !soon_over ? RUNS_PER_LAUNCH
                             : short_runs > LEAST_RUNS ? short_runs
                                                       : LEAST_RUNS;
  uint64_t run_length =
      work->one_by_one ? 1 + (blocks >> 31) : (blocks + most_runs - 1) / most_runs;
  uint32_t runs = (uint32_t)((blocks + run_length - 1) / run_length);
  job *j = &jobs[tw_current.runner];
  if (++j->generation == 0) j->generation = 1;
  const uint64_t fresh = (uint64_t)j->generation << 32;
  /* so that no run can be taken meanwhile */
  __atomic_store_n(&j->ticket, fresh | UINT32_MAX, __ATOMIC_SEQ_CST);
  PUT(j->age, __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED));
  PUT(j->entry, work->entry);
  PUT(j->launch, work->launch);
  PUT(j->parameters, work->parameters);
  PUT(j->blocks, blocks);
  PUT(j->run_blocks, run_length);
  PUT(j->runs, runs);
  PUT(j->done, 0);
  PUT(j->spare, work->spare);
  PUT(j->threads, work->threads ? work->threads : UINT32_MAX);
  raise_limit(tw_current.runner + 1);
  __atomic_store_n(&j->ticket, fresh, __ATOMIC_SEQ_CST);
  /* Better code may have arrived before the job existed, and could not update the job. */
  if (work->spare && __atomic_load_n(work->spare_no_more, __ATOMIC_SEQ_CST))
    __atomic_store_n(&j->spare, 0, __ATOMIC_SEQ_CST);
  const bool alone = soon_over && runs >= LEAST_RUNS;
  if (!alone) wake_helpers();
  draw_runs(j, fresh, alone ? tw_now_ns() + ALONE_NS : 0);
  wait_until_done(j, runs);
}

void tw_pool_do_not_spare(const tessera_launch_context *launch) {
  /* SEQ_CST, like `spare_no_more`: either the launch sees the flag, or this loop finds its job. */
  const uint32_t limit = __atomic_load_n(&job_limit, __ATOMIC_SEQ_CST);
  for (uint32_t i = 0; i < limit; i++)
    if (__atomic_load_n(&jobs[i].launch, __ATOMIC_SEQ_CST) == launch)
      __atomic_store_n(&jobs[i].spare, 0, __ATOMIC_SEQ_CST);
  wake_helpers();
}

int tw_pool_start(uint32_t count, void (*at_end)(void)) {
  end_thread = at_end;
  if (count > MAX_HELPERS) return -EINVAL;
  __atomic_store_n(&stopping, 0, __ATOMIC_SEQ_CST);
  for (helper_count = 0; helper_count < count; helper_count++) {
    int status = pthread_create(&helpers[helper_count], NULL, helper_main,
                                (void *)(uintptr_t)helper_count);
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
