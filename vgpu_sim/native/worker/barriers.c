#include "barriers.h"

#include <string.h>

static void warp_arrives(tw_barrier *barrier, uint32_t warp) {
  barrier->warps[warp].gathering = 0;
  barrier->warps[warp].gathered++;
  barrier->warps[warp].awaited = barrier->generation;
  barrier->arrived |= UINT32_C(1) << warp;
  barrier->threads += TESSERA_WARP_THREADS;
}

static bool complete(const tw_barriers *b, const tw_barrier *barrier) {
  if (barrier->count != 0) return barrier->threads >= barrier->count;
  return (b->live_warps & ~barrier->arrived) == 0;
}

static void look_again(tw_barriers *b, tw_barrier *barrier) {
  bool gathering = false;
  for (uint32_t warp = 0; warp < b->warp_count; warp++) {
    const uint32_t here = barrier->warps[warp].gathering;
    if (here != 0 && here == b->live_groups[warp]) warp_arrives(barrier, warp);
    gathering = gathering || barrier->warps[warp].gathering != 0;
  }
  if (!complete(b, barrier)) return;
  barrier->generation++;
  barrier->threads = barrier->arrived = 0;
  barrier->open = gathering;
}

void tw_barriers_reset(tw_barriers *b, uint32_t threads, uint32_t groups) {
  memset(b, 0, sizeof *b);
  const uint32_t lanes = threads / groups;
  b->warp_count = (threads + TESSERA_WARP_THREADS - 1) / TESSERA_WARP_THREADS;
  b->live_warps = b->warp_count == 32 ? UINT32_MAX : (UINT32_C(1) << b->warp_count) - 1;
  for (uint32_t group = 0; group < groups; group++)
    b->live_groups[group * lanes / TESSERA_WARP_THREADS]++;
}

const char *tw_barriers_arrive(tw_barriers *b, uint32_t warp, uint32_t number, uint32_t count,
                               bool waits) {
  const uint32_t everybody = b->warp_count * TESSERA_WARP_THREADS;
  if (number >= TW_BARRIERS) return "there is no such barrier";
  if (count % TESSERA_WARP_THREADS != 0 || (count == 0 && !waits))
    return "a barrier counts whole warps";
  if (count > everybody) return "a barrier counts more threads than the block has";
  tw_barrier *barrier = &b->barriers[number];
  const uint32_t before = barrier->open ? barrier->count : count;
  if ((before ? before : everybody) != (count ? count : everybody))
    return "threads meet at a barrier that count differently";
  barrier->count = before < count ? before : count;
  barrier->open = true;
  barrier->warps[warp].gathering++;
  look_again(b, barrier);
  return NULL;
}

void tw_barriers_group_ended(tw_barriers *b, uint32_t warp) {
  if (--b->live_groups[warp] == 0) b->live_warps &= ~(UINT32_C(1) << warp);
  for (uint32_t number = 0; number < TW_BARRIERS; number++)
    if (b->barriers[number].open) look_again(b, &b->barriers[number]);
}
