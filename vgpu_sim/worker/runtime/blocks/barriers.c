#include "blocks/barriers.h"

#include <string.h>

static void warp_arrives(tw_barriers *b, tw_barrier *barrier, uint32_t warp) {
  tw_fiber *here = barrier->warps[warp].first;
  while (here != NULL) {
    tw_fiber *group = here;
    here = tw_fiber_unlink(group);
    tw_fiber_link(group->waits ? &barrier->waiting : &b->released, group);
  }
  barrier->warps[warp].first = NULL;
  barrier->warps[warp].gathering = 0;
  barrier->partly &= ~(UINT32_C(1) << warp);
  barrier->arrived |= UINT32_C(1) << warp;
  barrier->threads += TESSERA_WARP_THREADS;
  barrier->lanes += barrier->warps[warp].lanes;
  barrier->true_lanes += barrier->warps[warp].true_lanes;
  barrier->warps[warp].lanes = barrier->warps[warp].true_lanes = 0;
}

static uint32_t outcome(const tw_barrier *barrier) {
  switch (barrier->reduction) {
    case 1:
      return barrier->true_lanes;
    case 2:
      return barrier->true_lanes == barrier->lanes;
    default:
      return barrier->true_lanes != 0;
  }
}

/* Return the warps that may arrive at a barrier, a bit each. */
static uint32_t warps_of(const tw_barriers *b, const tw_barrier *barrier) {
  const uint32_t number = (uint32_t)(barrier - b->barriers);
  if (number < TW_BARRIERS) return UINT32_MAX;
  const uint32_t group = (UINT32_C(1) << TW_WARPGROUP_WARPS) - 1;
  return group << (number - TW_BARRIERS) * TW_WARPGROUP_WARPS;
}

static bool complete(const tw_barriers *b, const tw_barrier *barrier) {
  if (barrier->count != 0) return barrier->threads >= barrier->count;
  return (b->live_warps & warps_of(b, barrier) & ~barrier->arrived) == 0;
}

/* Update a barrier after one of its warps has changed. */
static void look_again(tw_barriers *b, tw_barrier *barrier, uint32_t warp) {
  const uint32_t here = barrier->warps[warp].gathering;
  if (here != 0 && here == b->live_groups[warp]) warp_arrives(b, barrier, warp);
  if (!complete(b, barrier)) return;
  for (uint32_t other = 0; barrier->reduction != 0 && other < b->warp_count; other++)
    if (barrier->arrived >> other & 1) barrier->warps[other].outcome = outcome(barrier);
  tw_fiber_join(&b->released, barrier->waiting);
  barrier->waiting = NULL;
  barrier->threads = barrier->arrived = barrier->lanes = barrier->true_lanes = 0;
  barrier->open = barrier->partly != 0;
  if (!barrier->open) barrier->reduction = 0;
}

void tw_barriers_reset(tw_barriers *b, uint32_t threads, uint32_t groups, uint32_t lanes) {
  for (uint32_t number = 0; number < TW_ALL_BARRIERS; number++)
    if (b->used >> number & 1) memset(&b->barriers[number], 0, sizeof b->barriers[number]);
  b->used = 0;
  b->released = NULL;
  b->warp_count = (threads + TESSERA_WARP_THREADS - 1) / TESSERA_WARP_THREADS;
  b->live_warps = b->warp_count == 32 ? UINT32_MAX : (UINT32_C(1) << b->warp_count) - 1;
  memset(b->live_groups, 0, sizeof b->live_groups);
  for (uint32_t group = 0; group < groups; group++)
    b->live_groups[group * lanes / TESSERA_WARP_THREADS]++;
}

const char *tw_barriers_arrive(tw_barriers *b, tw_fiber *group, uint32_t warp, uint32_t number,
                               uint32_t count, bool waits, uint32_t reduction, uint32_t ballot) {
  const uint32_t all_threads = b->warp_count * TESSERA_WARP_THREADS;
  if (number > TW_BARRIERS) return "there is no such barrier";
  if (number == TW_BARRIERS) {
    if (count != 0 || !waits || reduction != 0)
      return "the barrier of a warpgroup has neither count nor reduction";
    number += warp / TW_WARPGROUP_WARPS;
  }
  if (count % TESSERA_WARP_THREADS != 0 || (count == 0 && !waits))
    return "a barrier counts whole warps";
  if (count > all_threads) return "a barrier counts more threads than the block has";
  tw_barrier *barrier = &b->barriers[number];
  const uint32_t before = barrier->open ? barrier->count : count;
  if ((before ? before : all_threads) != (count ? count : all_threads))
    return "threads meet at a barrier that count differently";
  if (reduction != 0 && barrier->reduction != 0 && barrier->reduction != reduction)
    return "threads meet at a barrier that reduce differently";
  if (reduction != 0) barrier->reduction = reduction;
  b->used |= UINT32_C(1) << number;
  barrier->count = before < count ? before : count;
  barrier->open = true;
  barrier->partly |= UINT32_C(1) << warp;
  barrier->warps[warp].gathering++;
  barrier->warps[warp].lanes += ballot & 0xffff;
  barrier->warps[warp].true_lanes += ballot >> 16;
  group->waits = waits;
  tw_fiber_link(&barrier->warps[warp].first, group);
  look_again(b, barrier, warp);
  return NULL;
}

void tw_barriers_group_ended(tw_barriers *b, uint32_t warp) {
  if (--b->live_groups[warp] == 0) b->live_warps &= ~(UINT32_C(1) << warp);
  for (uint32_t number = 0; number < TW_ALL_BARRIERS; number++)
    if (b->barriers[number].open) look_again(b, &b->barriers[number], warp);
}

tw_fiber *tw_barriers_waiting(const tw_barriers *b) {
  for (uint32_t number = 0; number < TW_ALL_BARRIERS; number++) {
    const tw_barrier *barrier = &b->barriers[number];
    if ((b->used >> number & 1) == 0) continue;
    if (barrier->waiting != NULL) return barrier->waiting;
    for (uint32_t warp = 0; warp < b->warp_count; warp++)
      if (barrier->warps[warp].first != NULL) return barrier->warps[warp].first;
  }
  return NULL;
}
