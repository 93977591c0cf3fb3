/* The block (CTA) that a thread of the pool runs: its groups of lanes take strict turns.
 *
 * A group is a fiber. It runs until it stops at a barrier, then the next one of the ring runs. Where
 * every stop is one of the same barrier, which waits for all threads, the order of turns alone says
 * that all have arrived: each group has come to its stop, or has ended, before the first one goes on.
 * Only the end of a block is counted, because a group that ends early would enter the next block.
 * Other barriers are counted; who waits looks again whenever its turn comes. */
#define _GNU_SOURCE
#include "cta.h"

#include <stdlib.h>
#include <string.h>

#include "barriers.h"
#include "fiber.h"
#include "internal.h"

struct tw_cta {
  tw_fiber home; /* the thread's own stack */
  tw_stacks stacks;
  const tw_launch *launch;
  const uint8_t *parameters;
  uint64_t shared_base;
  uint64_t first, end; /* blocks */
  struct {
    uint32_t arrived;
    uint32_t generation;
  } end_of_block;
  tw_barriers barriers;
  uint32_t idle;   /* turns without progress, one after the other */
  uint32_t linked; /* groups in the ring */
  uint32_t left;   /* groups that have run all blocks */
  const tw_fiber *failed;
  const char *failure; /* NULL: it executed a trap */
};

static __thread tw_cta *cta; /* of the calling thread; NULL: it has run none yet */

static void enter_first_block(tw_fiber *self) {
  const tw_cta *c = self->cta;
  const uint32_t *grid = c->launch->context.grid;
  tessera_thread_state *state = &self->state;
  state->status = 0;
  state->shared_base = c->shared_base;
  state->current_block = c->first;
  state->block_index[0] = (uint32_t)(c->first % grid[0]);
  state->block_index[1] = (uint32_t)(c->first / grid[0] % grid[1]);
  state->block_index[2] = (uint32_t)(c->first / grid[0] / grid[1]);
}

static bool enter_next_block(tw_fiber *self) {
  const uint32_t *grid = self->cta->launch->context.grid;
  tessera_thread_state *state = &self->state;
  if (++state->current_block == self->cta->end) return false;
  if (++state->block_index[0] < grid[0]) return true;
  state->block_index[0] = 0;
  if (++state->block_index[1] < grid[1]) return true;
  state->block_index[1] = 0;
  state->block_index[2]++;
  return true;
}

static uint32_t threads_of(const tw_cta *c) {
  const uint32_t *block = c->launch->context.block;
  return block[0] * block[1] * block[2];
}

static void begin_block(tw_cta *c) {
  memset((void *)(uintptr_t)c->shared_base, 0, c->launch->shared_bytes);
  if (c->launch->code.counts) tw_barriers_reset(&c->barriers, threads_of(c), c->launch->code.groups);
}

static uint32_t warp_of(const tw_fiber *self) {
  const uint32_t lanes = threads_of(self->cta) / self->cta->launch->code.groups;
  return (uint32_t)self->group * lanes / TESSERA_WARP_THREADS;
}

static void fail_here(tw_fiber *self, const char *failure) {
  self->cta->failed = self;
  self->cta->failure = failure;
  tw_fiber_switch(self, &self->cta->home);
}

/* Lets the others go on until `*counter` is no longer `value`. */
static void wait_while(tw_fiber *self, const volatile uint32_t *counter, uint32_t value) {
  while (*counter == value) {
    if (++self->cta->idle > 2 * self->cta->launch->code.groups)
      fail_here(self, "no thread of the block can go on");
    tw_fiber_yield(&self->state);
  }
}

static void meet(tessera_thread_state *state, uint32_t number, uint32_t count, uint32_t how) {
  tw_fiber *self = (tw_fiber *)state;
  tw_cta *c = self->cta;
  const uint32_t warp = warp_of(self);
  const bool waits = (how & 1) != 0;
  tw_barrier *barrier = &c->barriers.barriers[number % TW_BARRIERS];
  const uint32_t gathered = barrier->warps[warp].gathered;
  state->trap_word = (how >> 1) + 1;
  const char *misuse = tw_barriers_arrive(&c->barriers, warp, number, count, waits);
  if (misuse != NULL) fail_here(self, misuse);
  c->idle = 0;
  wait_while(self, &barrier->warps[warp].gathered, gathered);
  if (waits) wait_while(self, &barrier->generation, barrier->warps[warp].awaited);
}

/* Nobody touches the next block's shared memory before all groups have left this block. */
static void wait_for_end_of_block(tw_fiber *self) {
  tw_cta *c = self->cta;
  const uint32_t generation = c->end_of_block.generation;
  if (c->launch->code.counts) {
    tw_barriers_group_ended(&c->barriers, warp_of(self));
    c->idle = 0;
  }
  if (++c->end_of_block.arrived == c->launch->code.groups) {
    c->end_of_block.arrived = 0;
    c->end_of_block.generation++;
    begin_block(c);
    return;
  }
  while (*(volatile uint32_t *)&c->end_of_block.generation == generation)
    tw_fiber_yield(&self->state);
}

/* Parks a group until the next run. All are here or on their way, so each one has one more turn. */
static void leave(tw_fiber *self) {
  tw_cta *c = self->cta;
  const bool last = ++c->left == c->launch->code.groups;
  tw_fiber_switch(self, last ? &c->home : self->next);
}

static void run_group(tw_fiber *self) {
  tw_fiber_entered();
  for (;;) {
    tw_cta *c = self->cta;
    const tessera_group_entry entry = (tessera_group_entry)(uintptr_t)c->launch->code.entry;
    enter_first_block(self);
    do {
      entry(&c->launch->context, c->parameters, self->group, &self->state);
      if (self->state.status != 0) fail_here(self, NULL);
      wait_for_end_of_block(self);
    } while (enter_next_block(self));
    leave(self);
  }
}

/* Fibers stay from launch to launch; they are prepared again when more or deeper ones are needed. */
static void provide(tw_cta *c, const tw_code *code) {
  tw_stacks *stacks = &c->stacks;
  if (code->groups > stacks->count || code->stack_bytes > stacks->stack_bytes) {
    const uint32_t count = code->groups > stacks->count ? code->groups : stacks->count;
    const uint64_t bytes =
        code->stack_bytes > stacks->stack_bytes ? code->stack_bytes : stacks->stack_bytes;
    tw_stacks_close(stacks);
    if (tw_stacks_open(stacks, count, bytes, run_group) != 0)
      tw_die_out_of_memory("no memory for the stacks of a block's threads");
    tw_fiber_adopt_thread(&c->home);
    c->linked = 0;
  }
  if (c->linked == code->groups) return;
  c->linked = code->groups;
  for (uint32_t i = 0; i < code->groups; i++) {
    stacks->fibers[i].cta = c;
    stacks->fibers[i].state.stop = (uint64_t)(uintptr_t)tw_fiber_yield;
    stacks->fibers[i].state.meet = (uint64_t)(uintptr_t)meet;
    stacks->fibers[i].next = &stacks->fibers[i + 1 < code->groups ? i + 1 : 0];
  }
}

void tw_cta_run(const tessera_launch_context *context, const uint8_t *parameters, uint64_t first,
                uint64_t end, tessera_thread_state *thread) {
  (void)thread;
  if (cta == NULL) cta = calloc(1, sizeof *cta);
  if (cta == NULL) tw_die_out_of_memory("no memory for a block");
  tw_cta *c = cta;
  c->launch = (const tw_launch *)context;
  c->parameters = parameters;
  c->first = first;
  c->end = end;
  c->left = 0;
  c->shared_base = tw_shared_window(c->launch->shared_bytes);
  provide(c, &c->launch->code);
  begin_block(c);
  tw_current.stacks = &c->stacks;
  tw_fiber_switch(&c->home, &c->stacks.fibers[0]);
  tw_current.stacks = NULL;
  if (c->failed != NULL)
    tw_die_of_trap(context->kernel, c->launch->code.entry, &c->failed->state, c->failure);
}

void tw_cta_end_thread(void) {
  if (cta != NULL) tw_stacks_close(&cta->stacks);
  free(cta);
  cta = NULL;
  tw_shared_end_thread();
}
