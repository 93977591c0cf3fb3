/* The barriers of a block, counted as docs/isa.md says: by whole warps.
 *
 * Who arrives are groups of lanes, each within one warp; the lanes of a group that have not ended
 * arrive together. Those that wait are off the ring of the groups that take turns, until they are
 * `released`. */
#ifndef TESSERA_WORKER_BARRIERS_H
#define TESSERA_WORKER_BARRIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fiber.h"
#include "tessera_abi.h"

enum { TW_BARRIERS = 16, TW_WARPS = TESSERA_MAX_THREADS_PER_BLOCK / TESSERA_WARP_THREADS };

typedef struct tw_barrier {
  bool open;         /* somebody has come to it */
  uint32_t count;    /* threads that complete it; 0: all warps that have not ended */
  uint32_t threads;  /* that have arrived: 32 for a warp */
  uint32_t arrived;  /* warps, a bit each */
  uint32_t partly;   /* warps of which some groups are there, a bit each */
  tw_fiber *waiting; /* whose warps have arrived */
  uint32_t reduction;         /* 0: none; see tessera_thread_state.meet */
  uint32_t lanes, true_lanes; /* that warps which have arrived brought */
  struct {
    uint32_t gathering; /* groups that are there while the warp is not */
    tw_fiber *first;    /* those */
    uint32_t lanes, true_lanes; /* that they brought */
    uint32_t outcome;           /* of the reduction that the warp last waited for */
  } warps[TW_WARPS];
} tw_barrier;

typedef struct tw_barriers {
  uint32_t used; /* barriers that somebody has come to in this block, a bit each */
  uint32_t warp_count;
  uint32_t live_warps; /* a bit each */
  uint32_t live_groups[TW_WARPS];
  tw_fiber *released; /* who goes on; the caller takes them away */
  tw_barrier barriers[TW_BARRIERS];
} tw_barriers;

/* At the beginning of a block of `threads` in `groups` of `lanes`, the last of which may be partly
 * empty. */
void tw_barriers_reset(tw_barriers *b, uint32_t threads, uint32_t groups, uint32_t lanes);
/* A group of a warp arrives; it stands on no list. NULL, or what the program did wrong. */
const char *tw_barriers_arrive(tw_barriers *b, tw_fiber *group, uint32_t warp, uint32_t number,
                               uint32_t count, bool waits, uint32_t reduction, uint32_t ballot);
void tw_barriers_group_ended(tw_barriers *b, uint32_t warp);
/* Somebody who stands at a barrier; NULL: nobody does. */
tw_fiber *tw_barriers_waiting(const tw_barriers *b);

#endif
