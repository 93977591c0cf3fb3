/* See schedules.h. The program's variables are restored before each run. */
#include "schedules.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { FIBERS = 64, STACK_BYTES = 1 << 16, BUFFER = 8, ZEROS = 8 };
enum { STEPS_LIMIT = 4000000, STEP_NS = 50, JOIN_NS = 1000000, NO_FIBER = FIBERS };

typedef struct store {
  volatile void *place;
  uint8_t value[8];
  uint32_t bytes, epoch;
  bool ordered, total; /* ordered: after all earlier stores; total: SEQ_CST */
} store;

typedef struct fiber {
  jmp_buf context;
  void *(*main)(void *);
  void *argument;
  const void *futex; /* NULL: it can run */
  uint64_t until_ns; /* time limit of a wait; 0: no limit */
  uint32_t alive, begun;
  store stores[BUFFER];
  uint32_t buffered, epoch;
  char *stack, *kept;
} fiber;

typedef struct model {
  fiber fibers[FIBERS];
  uint32_t count, running;
  ucontext_t outside;
  uint64_t now_ns, steps, chance, switch_one_in, drain_one_in;
  uint32_t buffered; /* of all fibers */
  bool weak;
  const uint32_t *unlimited;
  const char *failure;
  struct {
    void *memory;
    size_t bytes;
  } zeros[ZEROS];
  uint32_t zeros_count;
} model;

static model *m; /* not among the restored variables */
extern char __data_start[], _end[], __start_fiber_local[], __stop_fiber_local[];
__attribute__((section("fiber_local"), used)) static int at_least_one; /* defines the section */

#define LOCAL_BYTES ((size_t)(__stop_fiber_local - __start_fiber_local))

uint64_t draw(uint64_t below) { /* splitmix64 */
  uint64_t z = m->chance += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (z ^ z >> 31) % below;
}

uint64_t now_ns(void) { return m->now_ns; }
void ignore_time_limits(const uint32_t *word) { m->unlimited = word; }

static void make_model(void) {
  if (m != NULL) return;
  m = calloc(1, sizeof *m);
  m->running = NO_FIBER;
}

void *zeros_of_run(size_t bytes) { return zeros_of_run_in(bytes, bytes); }

void *zeros_of_run_in(size_t bytes, size_t room) {
  make_model();
  if (m->zeros_count == ZEROS) abort();
  m->zeros[m->zeros_count].bytes = bytes;
  return m->zeros[m->zeros_count++].memory = calloc(1, room);
}

void end_run(const char *why) {
  m->failure = why;
  setcontext(&m->outside);
}

/* ---- stores that are not yet visible ---- */

static void drain(fiber *f, uint32_t index) {
  store *s = &f->stores[index];
  memcpy((void *)s->place, s->value, s->bytes);
  memmove(s, s + 1, (--f->buffered - index) * sizeof *s);
  m->buffered--;
}

static void drain_all(fiber *f) {
  while (f->buffered > 0) drain(f, 0);
}

/* Makes the buffered stores visible up to the last SEQ_CST one. */
static void drain_total(fiber *f) {
  uint32_t count = f->buffered;
  while (count > 0 && !f->stores[count - 1].total) count--;
  while (count-- > 0) drain(f, 0);
}

static bool may_drain(const fiber *f, uint32_t index) {
  const store *s = &f->stores[index];
  if (index > 0 && (!m->weak || s->ordered)) return false;
  for (uint32_t i = 0; i < index; i++)
    if (f->stores[i].place == s->place || f->stores[i].epoch != s->epoch) return false;
  return true;
}

static void drain_some(void) {
  if (m->buffered == 0 || draw(m->drain_one_in) != 0) return;
  const uint32_t first = (uint32_t)draw(m->count);
  for (uint32_t i = 0; i < m->count; i++) {
    fiber *f = &m->fibers[(first + i) % m->count];
    if (f->buffered == 0) continue;
    const uint32_t index = (uint32_t)draw(f->buffered);
    return drain(f, may_drain(f, index) ? index : 0);
  }
}

static fiber *self(void) { return m->running == NO_FIBER ? NULL : &m->fibers[m->running]; }

void schedules_load(const volatile void *place, void *value, size_t bytes, int order) {
  schedules_step();
  fiber *f = self();
  if (f != NULL && m->weak && order == __ATOMIC_SEQ_CST) drain_total(f);
  for (uint32_t i = f == NULL ? 0 : f->buffered; i > 0; i--)
    if (f->stores[i - 1].place == place) {
      memcpy(value, f->stores[i - 1].value, bytes);
      return;
    }
  memcpy(value, (const void *)place, bytes);
}

void schedules_store(volatile void *place, const void *value, size_t bytes, int order) {
  schedules_step();
  fiber *f = self();
  if (f == NULL || (order == __ATOMIC_SEQ_CST && !m->weak)) {
    if (f != NULL) drain_all(f);
    memcpy((void *)place, value, bytes);
    return;
  }
  if (f->buffered == BUFFER) drain(f, 0);
  store *s = &f->stores[f->buffered++];
  m->buffered++;
  *s = (store){.place = place, .bytes = (uint32_t)bytes, .epoch = f->epoch,
               .ordered = order != __ATOMIC_RELAXED, .total = order == __ATOMIC_SEQ_CST};
  memcpy(s->value, value, bytes);
}

void schedules_fence(int order) {
  schedules_step();
  fiber *f = self();
  if (f == NULL) return;
  f->epoch++;
  if (order == __ATOMIC_SEQ_CST) drain_all(f);
}

/* On weakly ordered memory, an atomic change without release semantics leaves earlier stores in
   the buffer. */
void schedules_change(const volatile void *place, int order) {
  schedules_step();
  fiber *f = self();
  if (f == NULL) return;
  if (!m->weak || (order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE)) return drain_all(f);
  uint32_t count = f->buffered;
  while (count > 0 && f->stores[count - 1].place != place) count--;
  while (count-- > 0) drain(f, 0);
}

static void call_the_kernel(void) { schedules_change(NULL, __ATOMIC_SEQ_CST); }

bool schedules_spurious(bool weak) { return weak && self() != NULL && draw(20) == 0; }

/* ---- scheduling ---- */

static void switch_to_another(void);
static void wake(const void *word, uint32_t most);

static void begin_fiber(void) {
  fiber *f = self();
  f->main(f->argument);
  call_the_kernel();
  f->alive = 0;
  wake(&f->alive, FIBERS);
  switch_to_another();
  abort();
}

static void resume(uint32_t next) {
  fiber *from = self(), *to = &m->fibers[next];
  if (from == to) return;
  if (from != NULL) memcpy(from->kept, __start_fiber_local, LOCAL_BYTES);
  memcpy(__start_fiber_local, to->kept, LOCAL_BYTES);
  m->running = next;
  if (from != NULL && _setjmp(from->context) != 0) return;
  if (to->begun) _longjmp(to->context, 1);
  to->begun = 1;
  ucontext_t first;
  getcontext(&first);
  first.uc_stack.ss_sp = to->stack;
  first.uc_stack.ss_size = STACK_BYTES;
  makecontext(&first, begin_fiber, 0);
  setcontext(&first);
}

static bool may_run(fiber *f) {
  if (f->futex != NULL && f->until_ns != 0 && f->until_ns <= m->now_ns) f->futex = NULL;
  return f->alive && f->futex == NULL;
}

static void switch_to_another(void) {
  for (;;) {
    const uint32_t first = (uint32_t)draw(m->count);
    uint64_t soonest = UINT64_MAX;
    for (uint32_t i = 0; i < m->count; i++) {
      fiber *f = &m->fibers[(first + i) % m->count];
      if (may_run(f)) return resume((first + i) % m->count);
      if (f->alive && f->until_ns != 0 && f->until_ns < soonest) soonest = f->until_ns;
    }
    if (soonest == UINT64_MAX) end_run("all sleep");
    m->now_ns = soonest;
  }
}

void schedules_step(void) {
  if (self() == NULL) return;
  m->now_ns += STEP_NS;
  if (++m->steps == STEPS_LIMIT) end_run("it does not end");
  drain_some();
  if (draw(m->switch_one_in) == 0) switch_to_another();
}

int schedules_create(pthread_t *thread, void *(*main)(void *), void *argument) {
  call_the_kernel();
  if (m->count == FIBERS) abort();
  fiber *f = &m->fibers[m->count];
  *f = (fiber){.main = main, .argument = argument, .alive = 1, .stack = f->stack, .kept = f->kept};
  memset(f->kept, 0, LOCAL_BYTES);
  if (thread != NULL) *thread = m->count;
  m->count++;
  return 0;
}

static void sleep_on(const void *word, uint64_t limit_ns) {
  fiber *f = self();
  drain_all(f);
  f->futex = word;
  f->until_ns = limit_ns != 0 && word != m->unlimited ? m->now_ns + limit_ns : 0;
  switch_to_another();
}

static uint64_t ns_of(const struct timespec *t) {
  return (uint64_t)t->tv_sec * UINT64_C(1000000000) + (uint64_t)t->tv_nsec;
}

/* The kernel usually wakes the longest sleeper, but guarantees no order. */
static void wake(const void *word, uint32_t most) {
  const uint32_t first = (uint32_t)draw(m->count);
  for (uint32_t i = 0; i < m->count && most > 0; i++) {
    fiber *f = &m->fibers[(first + i) % m->count];
    if (!f->alive || f->futex != word) continue;
    f->futex = NULL;
    most--;
  }
}

long schedules_futex(const uint32_t *word, int operation, uint32_t value,
                     const struct timespec *limit) {
  call_the_kernel();
  if (operation == FUTEX_WAKE)
    wake(word, value);
  else if (*word == value)
    sleep_on(word, limit == NULL ? 0 : ns_of(limit));
  return 0;
}

int schedules_clock(struct timespec *time) {
  schedules_step();
  *time = (struct timespec){.tv_sec = (time_t)(m->now_ns / 1000000000),
                            .tv_nsec = (long)(m->now_ns % 1000000000)};
  return 0;
}

int schedules_cpu(void) { return self() == NULL ? 0 : (int)draw(2); }

int schedules_sleep(const struct timespec *duration) {
  call_the_kernel();
  sleep_on(self(), ns_of(duration));
  return 0;
}

int schedules_yield(void) {
  call_the_kernel();
  switch_to_another();
  return 0;
}

int schedules_join(pthread_t thread, bool limited) {
  call_the_kernel();
  fiber *f = &m->fibers[thread];
  while (f->alive && !limited) sleep_on(&f->alive, 0);
  if (f->alive) sleep_on(&f->alive, JOIN_NS);
  return f->alive ? ETIMEDOUT : 0;
}

/* The first word of a mutex, initially 0, states whether it is locked. */
int schedules_lock(pthread_mutex_t *mutex) {
  call_the_kernel();
  uint32_t *locked = (uint32_t *)(void *)mutex;
  while (self() != NULL && *locked) sleep_on(locked, 0);
  *locked = self() != NULL;
  return 0;
}

int schedules_unlock(pthread_mutex_t *mutex) {
  call_the_kernel();
  *(uint32_t *)(void *)mutex = 0;
  wake(mutex, FIBERS);
  return 0;
}

/* ---- runs ---- */

static const char *run(uint64_t seed, void (*begin)(void), const char *saved) {
  static const uint64_t SWITCHES[] = {2, 5, 20, 100, 500}, DRAINS[] = {3, 20, 200};
  model *const kept = m;
  memcpy(__data_start, saved, (size_t)(_end - __data_start));
  m = kept;
  for (uint32_t i = 0; i < m->zeros_count; i++)
    memset(m->zeros[i].memory, 0, m->zeros[i].bytes);
  m->chance = seed * 1000003;
  m->switch_one_in = SWITCHES[seed % 5];
  m->weak = seed / 5 % 2;
  m->drain_one_in = DRAINS[seed / 10 % 3];
  m->steps = m->now_ns = m->count = m->buffered = 0;
  m->running = NO_FIBER;
  m->failure = "it has not begun";
  begin();
  volatile bool began = false;
  getcontext(&m->outside);
  if (began) return m->failure;
  began = true;
  switch_to_another();
  abort();
}

int run_schedules(int argc, char **argv, uint64_t runs, void (*begin)(void)) {
  if (argc > 1) runs = strtoull(argv[1], NULL, 10);
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  make_model();
  for (uint32_t i = 0; i < FIBERS; i++) {
    m->fibers[i].stack = malloc(STACK_BYTES);
    m->fibers[i].kept = malloc(LOCAL_BYTES);
  }
  const size_t bytes = (size_t)(_end - __data_start);
  char *saved = malloc(bytes);
  memcpy(saved, __data_start, bytes);
  for (uint64_t seed = first; seed < first + runs; seed++) {
    const char *why = run(seed, begin, saved);
    if (why == NULL) continue;
    printf("seed %llu: %s after %llu steps\n", (unsigned long long)seed, why,
           (unsigned long long)m->steps);
    return 1;
  }
  printf("ok\n");
  return 0;
}
