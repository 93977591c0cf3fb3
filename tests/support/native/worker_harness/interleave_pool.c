/* Runners and helpers of the pool share blocks (pool.c, residents.c) under random schedules:
 * each block of a launch runs once, a launch that returns has run, blocks that wait for others
 * end, and all helpers join after better code arrives or when a launch takes longer than
 * predicted. */
#include "schedules.h"

#include "base/internal.h"

enum { RUNNERS = 3, LAUNCHES = 6, MOST_BLOCKS = 600, SHARED_BYTES = 8 };
enum kind { PLAIN, GROUPS, POLLS, MEETS, MEETS_LATE, KINDS }; /* MEETS: all threads together */

typedef struct test_launch {
  tw_launch launch; /* first member: the pool's callees identify the test launch by it */
  enum kind kind;
  uint64_t blocks;
  uint32_t arrived, needed;
  uint32_t ran[MOST_BLOCKS];  /* atomic: number of runs */
  uint32_t awaits[MOST_BLOCKS]; /* of a polling block: the block that must end first, or itself */
} test_launch;

worker tw;
__thread thread_activity tw_current;
static __thread uint64_t window; /* the shared memory of this thread */
static __thread uint64_t entered; /* the launch in which it met the other threads */
static test_launch launches[RUNNERS];
static pthread_mutex_t lock;
static test_launch *provisional[RUNNERS]; /* protected by the lock */
static uint32_t helpers, at_work;
static uint64_t launched;
static const uint8_t parameters[1];

int tw_fault_prepare_thread(void) { return 0; }
void tw_stacks_close(tw_stacks *s) { (void)s; }
void tw_local_close(tw_local *l) { (void)l; }
void tw_shared_end_thread(void) {}
void tw_clusters_end_thread(void) {}
void tw_fiber_adopt_thread(tw_fiber *home) { (void)home; }

static void __attribute__((noreturn)) fail(const char *why) {
  end_run(why);
  for (;;) {
  }
}

void tw_die(const fault *f) { fail(f->message); }
void tw_die_of_trap(uint64_t kernel, uint64_t code, const tessera_thread_state *state,
                    const char *message) {
  (void)kernel, (void)code, (void)state;
  fail(message);
}

static void compute(uint64_t ns) { nanosleep(&(struct timespec){.tv_nsec = (long)ns + 1}, NULL); }

static void run_block(test_launch *l, uint64_t block) {
  if (block >= l->blocks) fail("a block that the launch does not have");
  if (__atomic_add_fetch(&l->ran[block], 1, __ATOMIC_SEQ_CST) != 1) fail("a block runs again");
}

uint64_t tw_shared_window(uint32_t bytes) {
  return tw_current.shared_window = bytes ? (uint64_t)(uintptr_t)&window : 0;
}

void tw_cta_prepare(tw_cta *c, const tw_launch *launch, const tw_code *code, const uint8_t *p,
                    uint64_t shared_base, tw_fiber *home, tw_cluster *cluster) {
  (void)p, (void)home, (void)cluster;
  c->launch = launch;
  c->code = code;
  c->shared_base = shared_base;
}

void tw_cta_begin(tw_cta *c, uint64_t first, uint64_t end) {
  c->first = first;
  c->end = end;
  window = first + 1;
}

/* Returns whether the block has run to its end. */
bool tw_cta_continue(tw_cta *c) {
  test_launch *l = (test_launch *)(uintptr_t)c->launch;
  if (window != c->first + 1) fail("a block has another's shared memory");
  if (l->kind == POLLS) {
    if (c->end != c->first + 1) fail("blocks that poll begin together");
    const uint32_t awaited = l->awaits[c->first];
    if (awaited != c->first && __atomic_load_n(&l->ran[awaited], __ATOMIC_SEQ_CST) == 0) return false;
    if (draw(4) == 0) return false;
  }
  for (uint64_t block = c->first; block < c->end; block++) run_block(l, block);
  return true;
}

/* A launch in which each thread stays in its first block until all threads have arrived. */
static void meet(test_launch *l, uint64_t block) {
  if (l->kind == MEETS_LATE && block < 16) return compute(2000);
  if (entered != l->launch.context.grid_id) __atomic_add_fetch(&l->arrived, 1, __ATOMIC_SEQ_CST);
  entered = l->launch.context.grid_id;
  while (__atomic_load_n(&l->arrived, __ATOMIC_SEQ_CST) < l->needed) compute(draw(20000));
}

static void entry(const tessera_launch_context *context, const uint8_t *p, uint64_t first,
                  uint64_t end, tessera_thread_state *state) {
  test_launch *l = (test_launch *)(uintptr_t)context;
  (void)p, (void)state;
  if (l->kind == GROUPS || l->kind == POLLS)
    return tw_cta_run(&l->launch, tw_code_now(&l->launch), p, first, end);
  for (uint64_t block = first; block < end; block++) {
    if (l->kind == MEETS || l->kind == MEETS_LATE) meet(l, block);
    run_block(l, block);
    if (draw(8) == 0) compute(draw(5000));
  }
}

/* A block may wait for a neighbour of higher rank, before or after it; all of them are resident. */
static void choose_waits(test_launch *l) {
  uint64_t rank[MOST_BLOCKS];
  for (uint32_t i = 0; i < l->blocks; i++) rank[i] = draw(1 << 20) << 20 | i;
  for (uint32_t i = 0; i < l->blocks; i++) {
    const uint64_t other = i + draw(7);
    l->awaits[i] = i;
    if (other >= 3 && other - 3 < l->blocks && rank[other - 3] > rank[i])
      l->awaits[i] = (uint32_t)(other - 3);
  }
}

static void launch(uint32_t runner) {
  test_launch *l = &launches[runner];
  const bool spare = draw(3) == 0;
  *l = (test_launch){.kind = (enum kind)draw(runner == 0 ? KINDS : MEETS), .needed = helpers + 1};
  const bool meets = l->kind == MEETS || l->kind == MEETS_LATE;
  l->blocks = meets ? 32 : l->kind == POLLS ? 1 + draw(12) : 1 + draw(draw(2) ? 20 : MOST_BLOCKS);
  l->launch.code = (tw_code){.polls = l->kind == POLLS, .groups = 1, .provisional = spare};
  l->launch.better = l->launch.code;
  l->launch.shared_bytes = draw(2) ? SHARED_BYTES : 0;
  if (l->kind == POLLS || l->kind == GROUPS) l->launch.shared_bytes = SHARED_BYTES;
  l->launch.room = (uint32_t)l->blocks;
  choose_waits(l);
  l->launch.context.grid_id = ++launched;
  if (spare) {
    pthread_mutex_lock(&lock);
    provisional[runner] = l;
    pthread_mutex_unlock(&lock);
  }
  tw_pool_run(&(tw_work){.entry = entry,
                         .launch = &l->launch.context,
                         .parameters = parameters,
                         .blocks = l->blocks,
                         .expected_ns = l->kind == MEETS        ? UINT64_MAX
                                        : l->kind == MEETS_LATE ? 50000
                                                                : draw(100000),
                         .one_by_one = l->kind == POLLS,
                         .spare = spare,
                         .spare_no_more = &l->launch.is_improved});
  pthread_mutex_lock(&lock);
  provisional[runner] = NULL;
  pthread_mutex_unlock(&lock);
  for (uint64_t block = 0; block < l->blocks; block++)
    if (__atomic_load_n(&l->ran[block], __ATOMIC_RELAXED) != 1) fail("a launch has not run all");
  if (l->launch.room != l->blocks) fail("room for blocks is lost");
}

/* Replaces the code of running launches, as kernels.c and execute.c do. */
static void *improve(void *unused) {
  (void)unused;
  while (__atomic_load_n(&at_work, __ATOMIC_SEQ_CST) != 0) {
    test_launch *improved = NULL;
    compute(draw(30000));
    pthread_mutex_lock(&lock);
    const uint32_t runner = (uint32_t)draw(RUNNERS);
    if (provisional[runner] != NULL) {
      improved = provisional[runner];
      provisional[runner] = NULL;
      __atomic_store_n(&improved->launch.is_improved, 1, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&lock);
    if (improved != NULL) tw_pool_do_not_spare(&improved->launch.context);
  }
  tw_pool_stop();
  end_run(NULL);
  return NULL;
}

static void *runner_main(void *index) {
  const uint32_t runner = (uint32_t)(uintptr_t)index;
  tw_current.runner = runner;
  for (uint32_t i = 0; i < LAUNCHES; i++) {
    launch(runner);
    if (draw(2)) compute(draw(30000));
  }
  tw_cta_end_thread();
  __atomic_sub_fetch(&at_work, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void begin(void) {
  helpers = 1 + (uint32_t)draw(3);
  at_work = RUNNERS;
  tw_pool_start(helpers, tw_cta_end_thread);
  for (uintptr_t i = 0; i < RUNNERS; i++) pthread_create(NULL, NULL, runner_main, (void *)i);
  pthread_create(NULL, NULL, improve, NULL);
}

int main(int argc, char **argv) { return run_schedules(argc, argv, 5000, begin); }
