/* Collectives among the lanes of a warp in which each lane is a group of its own.
 *
 * A lane waits for the members that it names, as docs/isa.md defines; the lane that completes a
 * collective computes the results of all its lanes. */
#ifndef TESSERA_WORKER_WARPS_H
#define TESSERA_WORKER_WARPS_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_abi.h"

/* A lane's operation, in the low byte of `how`; exec/jit/families/warp.py uses the same numbers. */
enum {
  TW_SHUFFLE_UP = 0x00,
  TW_SHUFFLE_DOWN,
  TW_SHUFFLE_BUTTERFLY,
  TW_SHUFFLE_INDEX,
  TW_VOTE_ALL = 0x10,
  TW_VOTE_ANY,
  TW_VOTE_UNIFORM,
  TW_VOTE_BALLOT,
  TW_COMPANY, /* as a ballot of all lanes that have not ended */
  TW_GATHER,  /* those that come to the same instruction in the turns that they get (cta.c) */
  TW_MATCH_ANY = 0x20, /* plus 2: of 64 bits */
  TW_MATCH_ALL,
  TW_REDUCE = 0x30,        /* plus isa.Reduction */
  TW_REDUCE_SIGNED = 0x38, /* plus isa.Reduction */
  TW_REDUCE_FLOAT = 0x40,  /* plus 1: maximum, 2: of absolute values, 4: a NaN wins */
  TW_ELECT = 0x50,
  TW_WAIT = 0x60
};

typedef struct tw_lane {
  uint32_t kind;
  uint32_t members;
  uint64_t a;
  uint64_t way;
  uint64_t result; /* predicate in bit 32, d in the lower bits */
} tw_lane;

typedef struct tw_warp {
  uint32_t live;      /* lanes that have not ended, a bit each */
  uint32_t waiting;   /* lanes in an incomplete collective */
  uint32_t gathering; /* lanes in a TW_GATHER, which can run */
  tw_lane lanes[TESSERA_WARP_THREADS];
} tw_warp;

/* Reset for the start of a block of `threads` threads. */
void tw_warps_reset(tw_warp warps[32], uint32_t threads);
/* Record a lane's arrival; afterwards `waiting` shows whether its collective is complete.
 * Returns NULL, or the program's error. */
const char *tw_warp_arrive(tw_warp *warp, uint32_t lane, tw_lane arriving);
void tw_warp_lane_ended(tw_warp *warp, uint32_t lane);
/* Record a lane's arrival at a TW_GATHER, the instruction `word`. */
void tw_warp_gather(tw_warp *warp, uint32_t lane, uint32_t word);
/* Return the lanes that gather where a lane does. */
uint32_t tw_warp_gathered(const tw_warp *warp, uint32_t lane);
/* Compute the results of these lanes. */
void tw_warp_end_gathering(tw_warp *warp, uint32_t lane);
/* Return the lanes for which a waiting lane is still waiting. */
uint32_t tw_warp_missing(const tw_warp *warp, uint32_t lane);

#endif
