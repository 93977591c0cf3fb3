/* Cooperative execution of the groups of lanes of a block (CTA).
 *
 * A group is a fiber. It runs until it waits; then the next group of the ring runs. If every
 * wait point is the same barrier, for all threads, round-robin order is sufficient to ensure
 * that all have arrived: each group has reached its wait point, or has ended, before the first
 * one continues. Only arrivals at the end of a block are counted, because a group that ends
 * early would enter the next block.
 *
 * Where barriers are counted, or groups poll memory, groups that wait at a barrier or have ended
 * are removed from the ring, which then holds only groups that can continue, or that poll. An
 * empty ring means a deadlock. When all groups of the ring have only polled, something else runs
 * (residents.c). The same happens after a number of rests per group, because a polling group may
 * make a little progress in each round. */
#define _GNU_SOURCE
#include "blocks/cta.h"

#include <stdio.h>
#include <string.h>

#include "blocks/rounds.h"
#include "base/internal.h"
#include "base/platform.h"

enum { POLLS_PER_ROUND = 64, FIRST_POLLS = 64, RESTS_OF_GROUP = 32 };

static bool in_turns(const tw_cta *c) {
  return c->code->counts == 0 && c->code->polls == 0;
}

static uint32_t threads_of(const tw_cta *c) {
  const uint32_t *block = c->launch->context.block;
  return block[0] * block[1] * block[2];
}

static uint32_t lanes_of_group(const tw_cta *c) {
  return threads_of(c) / c->code->groups;
}

static void enter_first_block(tw_fiber *self) {
  const tw_cta *c = self->cta;
  const uint32_t *grid = c->launch->context.grid;
  tessera_thread_state *state = &self->state;
  state->status = 0;
  state->trap_word = 0;
  state->turns = FIRST_POLLS;
  state->shared_base = c->shared_base;
  state->local_base = c->local.base + (uint64_t)self->group * lanes_of_group(c) *
                                          tw_local_stride(c->launch->context.local_bytes);
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

static uint32_t warp_of(const tw_fiber *self) {
  return self->group * self->cta->code->counts / TESSERA_WARP_THREADS;
}

static bool by_lane(const tw_cta *c) { return c->code->counts == 1; }

/* End the context with a fault of the group `failed`, which may not be the calling one. */
static void fail(tw_fiber *self, const tw_fiber *failed, const char *failure) {
  self->cta->failed = failed;
  self->cta->failure = failure;
  tw_fiber_switch(self, self->cta->home);
}

/* Find a group of a block in which all remaining groups wait at barriers or in warp collectives; NULL:
 * all have ended. `failure` gets a description. */
static const tw_fiber *find_stuck(const tw_cta *c, const char **failure) {
  static __thread char message[96];
  const tw_fiber *stuck = tw_barriers_waiting(&c->barriers);
  *failure = "no thread of the block can make progress";
  if (stuck == NULL) stuck = c->at_cluster;
  for (uint32_t warp = 0; stuck == NULL && by_lane(c) && warp < TW_WARPS; warp++) {
    const uint32_t waiting = c->warps[warp].waiting;
    if (waiting == 0) continue;
    const uint32_t lane = (uint32_t)__builtin_ctz(waiting);
    stuck = &c->stacks.fibers[warp * TESSERA_WARP_THREADS + lane];
    snprintf(message, sizeof message,
             "no thread of the block can make progress: lane %u of warp %u waits for lanes 0x%08x", lane,
             warp, tw_warp_missing(&c->warps[warp], lane));
    *failure = message;
  }
  return stuck;
}

void tw_cta_fail_stuck(tw_cta *c) {
  const char *failure;
  const tw_fiber *stuck = find_stuck(c, &failure);
  for (uint32_t i = 0; stuck == NULL && i < c->cluster->count; i++)
    stuck = find_stuck(c->cluster->blocks[i], &failure);
  tw_die_of_trap(c->launch->context.kernel, c->code->entry, &stuck->state, failure);
}

/* Run the next group of the ring, from which the calling group has been removed. If the block waits for
 * the rest of its cluster, run that; if not, end the context because of the deadlock. */
static void run_others(tw_fiber *self) {
  tw_cta *c = self->cta;
  if (c->ring == NULL && c->cluster->count == 1) {
    const char *failure;
    const tw_fiber *stuck = find_stuck(c, &failure);
    fail(self, stuck, failure);
  }
  tw_fiber_switch(self, c->ring != NULL ? c->ring : c->home);
}

/* Remove the calling group from the ring. */
static void leave_ring(tw_fiber *self) {
  self->cta->ring = tw_fiber_unlink(self);
  self->cta->resting = NULL;
}

/* Return released groups to the ring. */
static void take_released(tw_cta *c) {
  tw_fiber_join(&c->ring, c->barriers.released);
  c->barriers.released = NULL;
}

static uint32_t meet(tessera_thread_state *state, uint32_t number, uint32_t count, uint32_t how,
                     uint32_t ballot) {
  tw_fiber *self = (tw_fiber *)state;
  tw_cta *c = self->cta;
  const uint32_t warp = warp_of(self);
  state->trap_word = (how >> 3) + 1;
  leave_ring(self);
  self->waits = true;
  const char *misuse = tw_barriers_arrive(&c->barriers, self, warp, number, count, (how & 1) != 0,
                                          how >> 1 & 3, ballot);
  if (misuse != NULL) fail(self, self, misuse);
  take_released(c);
  if (c->ring != self || self->next != self) run_others(self);
  return c->barriers.barriers[number].warps[warp].outcome;
}

/* Complete the cluster's barrier if all groups that have not ended have arrived. */
static void update_cluster(tw_cluster *cluster) {
  if (cluster->arrived != cluster->live) return;
  cluster->phase++;
  cluster->arrived = 0;
  for (uint32_t i = 0; i < cluster->count; i++) {
    tw_cta *c = cluster->blocks[i];
    if (c->at_cluster == NULL) continue;
    tw_fiber_join(&c->ring, c->at_cluster);
    c->at_cluster = NULL;
    c->resting = NULL;
  }
}

static void meet_cluster(tessera_thread_state *state, uint32_t how) {
  tw_fiber *self = (tw_fiber *)state;
  tw_cluster *cluster = self->cta->cluster;
  state->trap_word = (how >> 1) + 1;
  if ((how & 1) == 0) {
    if (self->arrived != 0)
      fail(self, self, "a thread arrives at its cluster's barrier twice without a wait");
    self->arrived = cluster->phase + 1;
    cluster->arrived++;
    update_cluster(cluster);
    return;
  }
  if (self->arrived == 0)
    fail(self, self, "a thread waits for its cluster's barrier without an arrival");
  if (self->arrived == cluster->phase + 1) {
    leave_ring(self);
    tw_fiber_link(&self->cta->at_cluster, self);
    run_others(self);
  }
  self->arrived = 0;
}

static void end_in_cluster(tw_fiber *self) {
  tw_cluster *cluster = self->cta->cluster;
  if (self->arrived == cluster->phase + 1) cluster->arrived--;
  cluster->live--;
  update_cluster(cluster);
}

/* Return the lanes of a completed collective to the ring. */
static void take_collected(tw_cta *c, uint32_t warp, uint32_t waited) {
  uint32_t free = waited & ~c->warps[warp].waiting;
  for (; free != 0; free &= free - 1) {
    const uint32_t lane = (uint32_t)__builtin_ctz(free);
    tw_fiber_link(&c->ring, &c->stacks.fibers[warp * TESSERA_WARP_THREADS + lane]);
  }
}

/* Return the lanes of the warp that come to the same instruction: each group of the ring gets turns until
 * no more have come. So lanes run together again after a branch, as those of a GPU usually do. */
static uint64_t gather(tw_fiber *self, tw_warp *warp, uint32_t lane, uint32_t word) {
  uint32_t before;
  self->cta->resting = NULL;
  tw_warp_gather(warp, lane, word);
  do {
    before = tw_warp_gathered(warp, lane);
    tw_fiber_yield(&self->state);
    if ((warp->gathering >> lane & 1) == 0) return warp->lanes[lane].result;
  } while (tw_warp_gathered(warp, lane) != before);
  tw_warp_end_gathering(warp, lane);
  return warp->lanes[lane].result;
}

static uint64_t collect(tessera_thread_state *state, uint32_t how, uint32_t members, uint64_t a,
                        uint64_t way) {
  tw_fiber *self = (tw_fiber *)state;
  tw_cta *c = self->cta;
  const uint32_t index = warp_of(self), lane = self->group % TESSERA_WARP_THREADS;
  tw_warp *warp = &c->warps[index];
  state->trap_word = (how >> 8) + 1;
  if ((how & 0xff) == TW_GATHER) return gather(self, warp, lane, how >> 8);
  const tw_lane arriving = {.kind = how & 0xff, .members = members, .a = a, .way = way};
  const uint32_t waited = warp->waiting;
  const char *misuse = tw_warp_arrive(warp, lane, arriving);
  if (misuse != NULL) fail(self, self, misuse);
  c->resting = NULL;
  if ((warp->waiting >> lane & 1) == 0) {
    take_collected(c, index, waited);
    return warp->lanes[lane].result;
  }
  leave_ring(self);
  run_others(self);
  return warp->lanes[lane].result;
}

/* Record that the calling group has polled without success; when all groups of the ring have,
 * something else may run. */
static void rest(tw_fiber *self) {
  tw_cta *c = self->cta;
  if (c->resting == self || ++c->rests >= RESTS_OF_GROUP * c->code->groups) {
    c->rests = 0;
    c->resting = NULL;
    c->ring = self->next;
    tw_fiber_switch(self, c->home);
    return;
  }
  if (c->resting == NULL) c->resting = self;
  if (self->next != self) tw_fiber_switch(self, self->next);
}

static uint64_t cancel(tessera_thread_state *state) {
  const tw_fiber *self = (const tw_fiber *)state;
  uint64_t number;
  if (!tw_rounds_cancel(&number)) return 0;
  return 1 + tw_block_of(&self->cta->launch->context, number, 0);
}

static void let_others_run(tessera_thread_state *state, uint64_t at_least_ns) {
  tw_fiber *self = (tw_fiber *)state;
  const uint64_t begin_ns = at_least_ns != 0 ? tw_now_ns() : 0;
  do {
    rest(self);
  } while (at_least_ns != 0 && tw_now_ns() - begin_ns < at_least_ns);
  const uint32_t groups = self->cta->code->groups;
  state->turns = groups < POLLS_PER_ROUND ? POLLS_PER_ROUND / groups : 1;
}

/* All groups must leave this block before one of them touches the next block's shared memory. */
static void wait_for_end_of_block(tw_fiber *self) {
  tw_cta *c = self->cta;
  const uint32_t generation = c->end_of_block.generation;
  if (++c->end_of_block.arrived == c->code->groups) {
    c->end_of_block.arrived = 0;
    c->end_of_block.generation++;
    tw_shared_clear(c->shared_base, c->launch->shared_bytes);
    return;
  }
  while (*(volatile uint32_t *)&c->end_of_block.generation == generation)
    tw_fiber_yield(&self->state);
}

/* Park a group until the next run. All other groups are parked here or will be, so each gets one
 * more turn. */
static void leave_turns(tw_fiber *self) {
  tw_cta *c = self->cta;
  const bool last = ++c->left == c->code->groups;
  tw_fiber_switch(self, last ? c->home : self->next);
}

/* Park a group until the next block. */
static void leave_block(tw_fiber *self) {
  tw_cta *c = self->cta;
  leave_ring(self);
  if (c->code->counts) {
    tw_barriers_group_ended(&c->barriers, warp_of(self));
    take_released(c);
    end_in_cluster(self);
  }
  if (by_lane(c)) {
    tw_warp *warp = &c->warps[warp_of(self)];
    const uint32_t waited = warp->waiting;
    tw_warp_lane_ended(warp, self->group % TESSERA_WARP_THREADS);
    take_collected(c, warp_of(self), waited);
  }
  if (++c->left == c->code->groups)
    tw_fiber_switch(self, c->home);
  else
    run_others(self);
}

static void run_group(tw_fiber *self) {
  tw_fiber_entered();
  for (;;) {
    tw_cta *c = self->cta;
    const bool turns = in_turns(c);
    const tessera_group_entry entry = (tessera_group_entry)(uintptr_t)c->code->entry;
    enter_first_block(self);
    do {
      entry(&c->launch->context, c->parameters, self->group, &self->state);
      if (self->state.status != 0) fail(self, self, NULL);
      if (turns) wait_for_end_of_block(self);
    } while (turns && enter_next_block(self));
    if (turns)
      leave_turns(self);
    else
      leave_block(self);
  }
}

/* Fibers are kept between launches, and prepared again when more or deeper stacks are needed. */
static void provide_fibers(tw_cta *c, const tw_code *code) {
  tw_stacks *stacks = &c->stacks;
  if (code->groups > stacks->count || code->stack_bytes > stacks->stack_bytes) {
    const uint32_t count = code->groups > stacks->count ? code->groups : stacks->count;
    const uint64_t bytes =
        code->stack_bytes > stacks->stack_bytes ? code->stack_bytes : stacks->stack_bytes;
    tw_stacks_close(stacks);
    /* This many stacks of the deepest size may exceed the address space, but this code needs
     * fewer. */
    if (tw_stacks_open(stacks, count, bytes, run_group) != 0 &&
        tw_stacks_open(stacks, code->groups, code->stack_bytes, run_group) != 0)
      tw_die_out_of_memory("no memory for the stacks of a block's threads");
  }
  const uint64_t stop =
      code->polls ? (uint64_t)(uintptr_t)let_others_run : (uint64_t)(uintptr_t)tw_fiber_yield;
  for (uint32_t i = 0; i < code->groups; i++) {
    stacks->fibers[i].cta = c;
    stacks->fibers[i].state.stop = stop;
    stacks->fibers[i].state.meet = (uint64_t)(uintptr_t)meet;
    stacks->fibers[i].state.collect = (uint64_t)(uintptr_t)collect;
    stacks->fibers[i].state.cluster = (uint64_t)(uintptr_t)meet_cluster;
    stacks->fibers[i].state.cancel = (uint64_t)(uintptr_t)cancel;
    stacks->fibers[i].state.multiply = (uint64_t)(uintptr_t)tw_tensor_multiply;
  }
}

/* Put all groups on the ring, in their order. */
static void start(tw_cta *c) {
  const tw_code *code = c->code;
  tw_fiber *fibers = c->stacks.fibers;
  for (uint32_t i = 0; i < code->groups; i++) {
    fibers[i].next = &fibers[i + 1 < code->groups ? i + 1 : 0];
    fibers[i].previous = &fibers[i != 0 ? i - 1 : code->groups - 1];
    fibers[i].arrived = 0;
  }
  c->ring = fibers;
  c->rests = 0;
  c->resting = NULL;
  c->left = 0;
  c->at_cluster = NULL;
  if (c->cluster == &c->alone)
    c->alone = (tw_cluster){.live = code->groups, .count = 1, .blocks = {c}};
  tw_shared_clear(c->shared_base, c->launch->shared_bytes);
  if (code->counts) tw_barriers_reset(&c->barriers, threads_of(c), code->groups, code->counts);
  if (by_lane(c)) tw_warps_reset(c->warps, threads_of(c));
}

void tw_cta_prepare(tw_cta *c, const tw_launch *launch, const tw_code *code,
                    const uint8_t *parameters, uint64_t shared_base, tw_fiber *home,
                    tw_cluster *cluster) {
  c->launch = launch;
  c->code = code;
  c->parameters = parameters;
  c->shared_base = shared_base;
  c->home = home;
  c->cluster = cluster != NULL ? cluster : &c->alone;
  tw_local_prepare(&c->local, launch->context.local_bytes, threads_of(c));
  provide_fibers(c, code);
}

void tw_cta_begin(tw_cta *c, uint64_t first, uint64_t end) {
  c->first = first;
  c->end = end;
  start(c);
}

bool tw_cta_continue(tw_cta *c) {
  tw_current.stacks = &c->stacks;
  tw_current.local_window = c->local.base;
  for (;;) {
    tw_fiber_switch(c->home, c->ring);
    if (c->failed != NULL)
      tw_die_of_trap(c->launch->context.kernel, c->code->entry, &c->failed->state,
                     c->failure);
    const bool ended = c->left == c->code->groups;
    if (!ended || in_turns(c) || ++c->first == c->end) {
      tw_current.stacks = NULL;
      return ended;
    }
    start(c);
  }
}
