#include "blocks/warps.h"

#include <string.h>

static const uint32_t CANONICAL_NAN = 0x7fffffff;

static bool has(uint32_t lanes, uint32_t lane) { return (lanes >> lane & 1) != 0; }

static uint64_t both(uint32_t number, bool flag) { return (uint64_t)flag << 32 | number; }

static uint64_t shuffle(const tw_warp *w, uint32_t together, uint32_t lane) {
  const tw_lane *own = &w->lanes[lane];
  const int32_t n = own->way & 31, clamp = own->way >> 32 & 31, segment = own->way >> 40 & 31;
  const int32_t low = (int32_t)lane & segment, last = low | (clamp & ~segment);
  int32_t source;
  switch (own->kind) {
    case TW_SHUFFLE_UP:
      source = (int32_t)lane - n;
      break;
    case TW_SHUFFLE_DOWN:
      source = (int32_t)lane + n;
      break;
    case TW_SHUFFLE_BUTTERFLY:
      source = (int32_t)lane ^ n;
      break;
    default:
      source = low | (n & ~segment);
  }
  const bool within = own->kind == TW_SHUFFLE_UP ? source >= last : source <= last;
  if (!within) return both((uint32_t)own->a, false);
  return both(has(together, (uint32_t)source) ? (uint32_t)w->lanes[source].a : 0, true);
}

/* Map a float to an integer of the same order. */
static int64_t key_of(uint32_t pattern) {
  return pattern >> 31 ? -(int64_t)(pattern & 0x7fffffff) - 1 : (int64_t)pattern;
}

static uint32_t pattern_of(int64_t key) {
  return key < 0 ? (uint32_t)(-key - 1) | UINT32_C(0x80000000) : (uint32_t)key;
}

static uint32_t reduce_floats(const tw_warp *w, uint32_t together, uint32_t how) {
  bool any = false, any_nan = false;
  int64_t best = 0;
  for (uint32_t lane = 0; lane < TESSERA_WARP_THREADS; lane++) {
    if (!has(together, lane)) continue;
    const uint32_t all = (uint32_t)w->lanes[lane].a;
    const uint32_t pattern = how & 2 ? all & 0x7fffffff : all;
    if ((pattern & 0x7fffffff) > 0x7f800000) {
      any_nan = true;
      continue;
    }
    const int64_t key = key_of(pattern);
    if (!any || (how & 1 ? key > best : key < best)) best = key;
    any = true;
  }
  return !any || (any_nan && (how & 4)) ? CANONICAL_NAN : pattern_of(best);
}

static uint32_t step(uint32_t kind, uint32_t a, uint32_t b) {
  const bool is_signed = kind >= TW_REDUCE_SIGNED;
  const bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
  switch (kind & 7) {
    case 0:
      return a + b;
    case 1:
      return less ? a : b;
    case 2:
      return less ? b : a;
    case 3:
      return a & b;
    case 4:
      return a | b;
    default:
      return a ^ b;
  }
}

static uint32_t reduce(const tw_warp *w, uint32_t together, uint32_t kind) {
  if (kind >= TW_REDUCE_FLOAT) return reduce_floats(w, together, kind);
  const uint32_t first = (uint32_t)__builtin_ctz(together);
  uint32_t result = (uint32_t)w->lanes[first].a;
  for (uint32_t lane = first + 1; lane < TESSERA_WARP_THREADS; lane++)
    if (has(together, lane)) result = step(kind, result, (uint32_t)w->lanes[lane].a);
  return result;
}

static uint32_t alike(const tw_warp *w, uint32_t together, uint32_t lane) {
  uint32_t same = 0;
  for (uint32_t other = 0; other < TESSERA_WARP_THREADS; other++)
    if (has(together, other) && w->lanes[other].a == w->lanes[lane].a) same |= UINT32_C(1) << other;
  return same;
}

static uint64_t vote(const tw_warp *w, uint32_t together, uint32_t kind) {
  uint32_t ballot = 0;
  for (uint32_t lane = 0; lane < TESSERA_WARP_THREADS; lane++)
    if (has(together, lane) && (w->lanes[lane].a & 1)) ballot |= UINT32_C(1) << lane;
  switch (kind) {
    case TW_VOTE_ALL:
      return both(0, ballot == together);
    case TW_VOTE_ANY:
      return both(0, ballot != 0);
    case TW_VOTE_UNIFORM:
      return both(0, ballot == together || ballot == 0);
    default:
      return both(ballot, false);
  }
}

static uint64_t result_of(const tw_warp *w, uint32_t together, uint32_t lane) {
  const uint32_t kind = w->lanes[lane].kind, leader = (uint32_t)__builtin_ctz(together);
  if (kind < TW_VOTE_ALL) return shuffle(w, together, lane);
  if (kind < TW_MATCH_ANY) return vote(w, together, kind);
  if (kind < TW_REDUCE) {
    const uint32_t same = alike(w, together, lane);
    if ((kind & 1) == 0) return both(same, false);
    return same == together ? both(together, true) : both(0, false);
  }
  if (kind < TW_ELECT) return both(reduce(w, together, kind), false);
  return both(leader, leader == lane);
}

static bool alongside(const tw_warp *w, uint32_t lane, uint32_t other) {
  return has(w->waiting, other) && w->lanes[other].kind == w->lanes[lane].kind &&
         w->lanes[other].members == w->lanes[lane].members;
}

uint32_t tw_warp_missing(const tw_warp *w, uint32_t lane) {
  uint32_t missing = w->lanes[lane].members & w->live;
  for (uint32_t other = 0; other < TESSERA_WARP_THREADS; other++)
    if (alongside(w, lane, other)) missing &= ~(UINT32_C(1) << other);
  return missing;
}

/* Return the lanes that wait for the same collective as `lane`, if they include all its members;
 * else 0. */
static uint32_t complete(const tw_warp *w, uint32_t lane) {
  return tw_warp_missing(w, lane) == 0 ? w->lanes[lane].members & w->live : 0;
}

static void perform(tw_warp *w, uint32_t together) {
  for (uint32_t lane = 0; lane < TESSERA_WARP_THREADS; lane++)
    if (has(together, lane)) w->lanes[lane].result = result_of(w, together, lane);
  w->waiting &= ~together;
}

void tw_warps_reset(tw_warp warps[32], uint32_t threads) {
  for (uint32_t warp = 0; warp < 32; warp++)
    warps[warp].live = warps[warp].waiting = warps[warp].gathering = 0;
  for (uint32_t first = 0; first < threads; first += TESSERA_WARP_THREADS, warps++) {
    const uint32_t count = threads - first;
    warps->live = count >= TESSERA_WARP_THREADS ? UINT32_MAX : (UINT32_C(1) << count) - 1;
    warps->waiting = 0;
  }
}

void tw_warp_gather(tw_warp *warp, uint32_t lane, uint32_t word) {
  warp->lanes[lane] = (tw_lane){.kind = TW_GATHER, .way = word};
  warp->gathering |= UINT32_C(1) << lane;
}

uint32_t tw_warp_gathered(const tw_warp *w, uint32_t lane) {
  uint32_t together = 0;
  for (uint32_t other = 0; other < TESSERA_WARP_THREADS; other++)
    if (has(w->gathering, other) && w->lanes[other].way == w->lanes[lane].way)
      together |= UINT32_C(1) << other;
  return together;
}

void tw_warp_end_gathering(tw_warp *w, uint32_t lane) {
  const uint32_t together = tw_warp_gathered(w, lane);
  for (uint32_t other = 0; other < TESSERA_WARP_THREADS; other++)
    if (has(together, other)) w->lanes[other].result = together;
  w->gathering &= ~together;
}

const char *tw_warp_arrive(tw_warp *warp, uint32_t lane, tw_lane arriving) {
  if (!has(arriving.members, lane)) return "a lane is not in the member mask that it names";
  warp->lanes[lane] = arriving;
  warp->waiting |= UINT32_C(1) << lane;
  const uint32_t together = complete(warp, lane);
  if (together != 0) perform(warp, together);
  return NULL;
}

void tw_warp_lane_ended(tw_warp *warp, uint32_t lane) {
  warp->live &= ~(UINT32_C(1) << lane);
  for (uint32_t other = 0; other < TESSERA_WARP_THREADS; other++) {
    if (!has(warp->waiting, other)) continue;
    const uint32_t together = complete(warp, other);
    if (together != 0) perform(warp, together);
  }
}
