/* See schedules_model.h. The program's variables are restored before each run. */
#include "schedules_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOIN_NS = 1000000 };

model *schedules_model;
#define m schedules_model
__attribute__((section("fiber_local"), used)) static int at_least_one; /* defines the section */
static char *saved;

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

void drain(fiber *f, uint32_t index) {
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

bool may_drain(const fiber *f, uint32_t index) {
  const store *s = &f->stores[index];
  if (index > 0 && (!m->weak || s->ordered)) return false;
  for (uint32_t i = 0; i < index; i++)
    if (f->stores[i].place == s->place || f->stores[i].epoch != s->epoch) return false;
  return true;
}

fiber *running_fiber(void) { return m->running == NO_FIBER ? NULL : &m->fibers[m->running]; }

void schedules_load(const volatile void *place, void *value, size_t bytes, int order) {
  step_at(place, false);
  fiber *f = running_fiber();
  if (f != NULL && m->weak && order == __ATOMIC_SEQ_CST) drain_total(f);
  for (uint32_t i = f == NULL ? 0 : f->buffered; i > 0; i--)
    if (f->stores[i - 1].place == place) {
      memcpy(value, f->stores[i - 1].value, bytes);
      return;
    }
  memcpy(value, (const void *)place, bytes);
}

void schedules_store(volatile void *place, const void *value, size_t bytes, int order) {
  const bool is_shared = step_at(place, true);
  fiber *f = running_fiber();
  if (f == NULL || !is_shared || (order == __ATOMIC_SEQ_CST && !m->weak)) {
    if (f != NULL && is_shared) drain_all(f);
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
  fiber *f = running_fiber();
  if (f != NULL && f->buffered > 0) schedules_step();
  if (f == NULL) return;
  f->epoch++;
  if (order == __ATOMIC_SEQ_CST) drain_all(f);
}

/* On weakly ordered memory, an atomic change without release semantics leaves earlier stores in
   the buffer. */
void schedules_change(const volatile void *place, int order) {
  const bool is_shared = step_at(place, true);
  fiber *f = running_fiber();
  if (f == NULL) return;
  if (!is_shared) {
    if (f->buffered == 0) return;
    schedules_step(); /* the change makes the stores visible */
  }
  if (!m->weak || (order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE)) return drain_all(f);
  uint32_t count = f->buffered;
  while (count > 0 && f->stores[count - 1].place != place) count--;
  while (count-- > 0) drain(f, 0);
}

static void call_the_kernel(const volatile void *place) {
  schedules_change(place, __ATOMIC_SEQ_CST);
}

/* ---- scheduling ---- */

static void wake(const void *word, uint32_t most);

static void begin_fiber(void) {
  fiber *f = running_fiber();
  f->main(f->argument);
  call_the_kernel(&f->alive);
  f->alive = 0;
  wake(&f->alive, FIBERS);
  switch_to_another();
  abort();
}

void resume_fiber(uint32_t next) {
  fiber *from = running_fiber(), *to = &m->fibers[next];
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

int schedules_create(pthread_t *thread, void *(*main)(void *), void *argument) {
  call_the_kernel(NULL);
  if (m->count == FIBERS) abort();
  fiber *f = &m->fibers[m->count];
  *f = (fiber){.main = main, .argument = argument, .alive = 1, .stack = f->stack, .kept = f->kept};
  memset(f->kept, 0, LOCAL_BYTES);
  if (thread != NULL) *thread = m->count;
  m->count++;
  return 0;
}

static void sleep_on(const void *word, uint64_t limit_ns) {
  fiber *f = running_fiber();
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
  call_the_kernel(word);
  if (operation == FUTEX_WAKE)
    wake(word, value);
  else if (*word == value)
    sleep_on(word, limit == NULL ? 0 : ns_of(limit));
  return 0;
}

int schedules_sleep(const struct timespec *duration) {
  call_the_kernel(NULL);
  sleep_on(running_fiber(), ns_of(duration));
  return 0;
}

int schedules_yield(void) {
  call_the_kernel(NULL);
  switch_to_another();
  return 0;
}

int schedules_join(pthread_t thread, bool limited) {
  fiber *f = &m->fibers[thread];
  call_the_kernel(&f->alive);
  while (f->alive && !limited) sleep_on(&f->alive, 0);
  if (f->alive) sleep_on(&f->alive, JOIN_NS);
  return f->alive ? ETIMEDOUT : 0;
}

/* The first word of a mutex, initially 0, states whether it is locked. */
int schedules_lock(pthread_mutex_t *mutex) {
  call_the_kernel(mutex);
  uint32_t *locked = (uint32_t *)(void *)mutex;
  while (running_fiber() != NULL && *locked) sleep_on(locked, 0);
  *locked = running_fiber() != NULL;
  return 0;
}

int schedules_unlock(pthread_mutex_t *mutex) {
  call_the_kernel(mutex);
  *(uint32_t *)(void *)mutex = 0;
  wake(mutex, FIBERS);
  return 0;
}

/* ---- runs ---- */

void prepare_runs(void) {
  make_model();
  for (uint32_t i = 0; i < FIBERS; i++) {
    m->fibers[i].stack = malloc(STACK_BYTES);
    m->fibers[i].kept = malloc(LOCAL_BYTES);
  }
  saved = malloc(VARIABLE_BYTES);
  memcpy(saved, __data_start, VARIABLE_BYTES);
}

const char *carry_out_run(void (*begin)(void)) {
  model *const kept = m;
  char *const same = saved;
  memcpy(__data_start, same, VARIABLE_BYTES);
  m = kept;
  saved = same;
  for (uint32_t i = 0; i < m->zeros_count; i++)
    memset(m->zeros[i].memory, 0, m->zeros[i].bytes);
  m->now_ns = m->count = m->buffered = 0;
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
