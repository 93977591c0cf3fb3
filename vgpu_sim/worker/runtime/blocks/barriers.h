/* The barriers of a block. Arrivals are counted in whole warps, as docs/isa.md defines.
 *
 * A group of lanes belongs to one warp; those of its lanes that have not ended arrive together.
 * Waiting groups are not on the ring of runnable groups until they are `released`. */
#ifndef TESSERA_WORKER_BARRIERS_H
#define TESSERA_WORKER_BARRIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fiber.h"
#include "tessera_abi.h"

/* Number TW_BARRIERS names the barrier of the arriving warp's warpgroup; the barriers of the
 * warpgroups follow the others. */
enum {
  TW_BARRIERS = 16,
  TW_WARPS = TESSERA_MAX_THREADS_PER_BLOCK / TESSERA_WARP_THREADS,
  TW_WARPGROUP_WARPS = 4,
  TW_ALL_BARRIERS = TW_BARRIERS + TW_WARPS / TW_WARPGROUP_WARPS
};

typedef struct tw_barrier {
  bool open;         /* a group has arrived */
  uint32_t count;    /* number of threads that complete it; 0: all its warps that have not ended */
  uint32_t threads;  /* number of threads that have arrived: 32 per warp */
  uint32_t arrived;  /* warps that have arrived, a bit each */
  uint32_t partly;   /* warps of which only some groups have arrived, a bit each */
  tw_fiber *waiting; /* groups of the warps that have arrived */
  uint32_t reduction;         /* 0: none; see tessera_thread_state.meet */
  uint32_t lanes, true_lanes; /* votes of the warps that have arrived */
  struct {
    uint32_t gathering; /* groups that have arrived although their warp has not */
    tw_fiber *first;    /* the first of them */
    uint32_t lanes, true_lanes; /* their votes */
    uint32_t outcome;           /* result of the reduction that the warp last waited for */
  } warps[TW_WARPS];
} tw_barrier;

typedef struct tw_barriers {
  uint32_t used; /* barriers at which a group has arrived in this block, a bit each */
  uint32_t warp_count;
  uint32_t live_warps; /* a bit each */
  uint32_t live_groups[TW_WARPS];
  tw_fiber *released; /* groups that may continue; the caller removes them */
  tw_barrier barriers[TW_ALL_BARRIERS];
} tw_barriers;

/* Reset for the start of a block of `threads` in `groups` of `lanes`; the last group may be
 * partly empty. */
void tw_barriers_reset(tw_barriers *b, uint32_t threads, uint32_t groups, uint32_t lanes);
/* Record a group's arrival; the group must not be on a list. Returns NULL, or the program's
 * error. */
const char *tw_barriers_arrive(tw_barriers *b, tw_fiber *group, uint32_t warp, uint32_t number,
                               uint32_t count, bool waits, uint32_t reduction, uint32_t ballot);
void tw_barriers_group_ended(tw_barriers *b, uint32_t warp);
/* Return a group that waits at a barrier; NULL: no group does. */
tw_fiber *tw_barriers_waiting(const tw_barriers *b);

#endif
