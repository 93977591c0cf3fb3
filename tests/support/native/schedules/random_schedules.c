/* Carries out runs under random schedules. A seed always gives the same run: time is counted in
 * steps. */
#include "schedules_model.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS_LIMIT = 4000000, STEP_NS = 50 };

/* Allocated, so that it is not restored before each run. */
static struct policy {
  uint64_t chance, steps, switch_one_in, drain_one_in;
} *policy;
#define m schedules_model

uint64_t draw(uint64_t below) { /* splitmix64 */
  uint64_t z = policy->chance += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (z ^ z >> 31) % below;
}

static void drain_some(void) {
  if (m->buffered == 0 || draw(policy->drain_one_in) != 0) return;
  const uint32_t first = (uint32_t)draw(m->count);
  for (uint32_t i = 0; i < m->count; i++) {
    fiber *f = &m->fibers[(first + i) % m->count];
    if (f->buffered == 0) continue;
    const uint32_t index = (uint32_t)draw(f->buffered);
    return drain(f, may_drain(f, index) ? index : 0);
  }
}

static bool may_run(fiber *f) {
  if (f->futex != NULL && f->until_ns != 0 && f->until_ns <= m->now_ns) f->futex = NULL;
  return f->alive && f->futex == NULL;
}

void switch_to_another(void) {
  for (;;) {
    const uint32_t first = (uint32_t)draw(m->count);
    uint64_t soonest = UINT64_MAX;
    for (uint32_t i = 0; i < m->count; i++) {
      fiber *f = &m->fibers[(first + i) % m->count];
      if (may_run(f)) return resume_fiber((first + i) % m->count);
      if (f->alive && f->until_ns != 0 && f->until_ns < soonest) soonest = f->until_ns;
    }
    if (soonest == UINT64_MAX) end_run("all sleep");
    m->now_ns = soonest;
  }
}

void schedules_step(void) {
  if (running_fiber() == NULL) return;
  m->now_ns += STEP_NS;
  if (++policy->steps == STEPS_LIMIT) end_run("it does not end");
  drain_some();
  if (draw(policy->switch_one_in) == 0) switch_to_another();
}

void schedules_pause(void) { schedules_step(); }

bool step_at(const volatile void *place, bool writes) {
  (void)place, (void)writes;
  schedules_step();
  return true;
}

int schedules_clock(struct timespec *time) {
  schedules_step();
  *time = (struct timespec){.tv_sec = (time_t)(m->now_ns / 1000000000),
                            .tv_nsec = (long)(m->now_ns % 1000000000)};
  return 0;
}

int schedules_cpu(void) { return running_fiber() == NULL ? 0 : (int)draw(2); }

bool schedules_spurious(bool weak) { return weak && running_fiber() != NULL && draw(20) == 0; }

static const char *run(uint64_t seed, void (*begin)(void)) {
  static const uint64_t SWITCHES[] = {2, 5, 20, 100, 500}, DRAINS[] = {3, 20, 200};
  *policy = (struct policy){.chance = seed * 1000003,
                            .switch_one_in = SWITCHES[seed % 5],
                            .drain_one_in = DRAINS[seed / 10 % 3]};
  m->weak = seed / 5 % 2;
  return carry_out_run(begin);
}

int run_schedules(int argc, char **argv, uint64_t runs, void (*begin)(void)) {
  if (argc > 1) runs = strtoull(argv[1], NULL, 10);
  const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  policy = calloc(1, sizeof *policy);
  prepare_runs();
  for (uint64_t seed = first; seed < first + runs; seed++) {
    const char *why = run(seed, begin);
    if (why == NULL) continue;
    printf("seed %llu: %s after %llu steps\n", (unsigned long long)seed, why,
           (unsigned long long)policy->steps);
    return 1;
  }
  printf("ok\n");
  return 0;
}
