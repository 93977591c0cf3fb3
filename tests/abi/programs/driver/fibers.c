/* Fibers that switch with all registers in use: each must find its own values and its own stack
 * again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fiber.h"

enum { FIBERS = 7, TURNS = 1000, STACK_BYTES = 16384 };

static tw_fiber home, *finished[FIBERS];
static tw_stacks stacks;
static uint64_t sums[FIBERS];
static double reals[FIBERS];
static uint32_t order[FIBERS * 2], ended;

/* More values than there are registers for a call, so that some are live across it. */
static void turns(tw_fiber *self, uint64_t *sum, double *real) {
  const uint64_t g = self->group + 1;
  uint64_t a = g, b = g * 3, c = g * 5, d = g * 7, e = g * 11, f = g * 13, h = g * 17, i = g * 19;
  double p = 1.0 / (double)g, q = p * 2, r = p * 3, s = p * 4, t = p * 5, u = p * 6, v = p * 7;
  for (int turn = 0; turn < TURNS; turn++) {
    a += b, b ^= c, c += d, d ^= e, e += f, f ^= h, h += i, i ^= a;
    p += q, q -= r * 0.5, r += s * 0.25, s -= t * 0.125, t += u * 0.5, u -= v * 0.25, v += p * 0.001;
    if (sum != NULL) tw_fiber_yield((tessera_thread_state *)self);
  }
  sums[self->group] = a + b + c + d + e + f + h + i;
  reals[self->group] = p + q + r + s + t + u + v;
  if (sum != NULL) *sum = sums[self->group], *real = reals[self->group];
}

static void run(tw_fiber *self) {
  uint64_t sum;
  double real;
  tw_fiber_entered();
  turns(self, &sum, &real);
  order[ended] = self->group;
  finished[ended++] = self;
  tw_fiber *next = tw_fiber_unlink(self);
  tw_fiber_switch(self, next == NULL ? &home : next);
  abort();
}

int main(void) {
  uint64_t expected[FIBERS];
  double real[FIBERS];
  for (uint32_t g = 0; g < FIBERS; g++) {
    tw_fiber alone = {.group = g};
    turns(&alone, NULL, NULL);
    expected[g] = sums[g];
    real[g] = reals[g];
    sums[g] = 0;
    reals[g] = 0;
  }
  if (tw_stacks_open(&stacks, FIBERS, STACK_BYTES, run) != 0) return 2;
  tw_fiber_adopt_thread(&home);
  tw_fiber *ring = NULL;
  for (uint32_t g = 0; g < FIBERS; g++) tw_fiber_link(&ring, &stacks.fibers[g]);
  tw_fiber_switch(&home, ring);
  uint32_t wrong = ended != FIBERS;
  for (uint32_t g = 0; g < FIBERS; g++)
    wrong += sums[g] != expected[g] || reals[g] != real[g] || order[g] != g ||
             ((uintptr_t)finished[g]->sp & 15) != ((uintptr_t)finished[0]->sp & 15);
  bool in_guard = false;
  wrong += tw_stacks_find(&stacks, (uint64_t)(uintptr_t)stacks.base, &in_guard) == NULL || !in_guard;
  tw_stacks_close(&stacks);
  printf("%u fibers, %d turns, %u wrong\n", ended, TURNS, wrong);
  return wrong != 0;
}
