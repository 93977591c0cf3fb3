/* Collectives among the lanes of a warp where each lane is a group of its own.
 *
 * A lane waits for those that it names, as docs/isa.md says; whoever completes a collective works
 * out what all of its lanes get. */
#ifndef TESSERA_WORKER_WARPS_H
#define TESSERA_WORKER_WARPS_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_abi.h"

/* What a lane does, in the low byte of `how`; exec/jit/families/warp.py numbers them alike. */
enum {
  TW_SHUFFLE_UP = 0x00,
  TW_SHUFFLE_DOWN,
  TW_SHUFFLE_BUTTERFLY,
  TW_SHUFFLE_INDEX,
  TW_VOTE_ALL = 0x10,
  TW_VOTE_ANY,
  TW_VOTE_UNIFORM,
  TW_VOTE_BALLOT,
  TW_COMPANY, /* as a ballot: all that have not ended meet */
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
  uint64_t result; /* p in bit 32, d below */
} tw_lane;

typedef struct tw_warp {
  uint32_t live;    /* lanes that have not ended, a bit each */
  uint32_t waiting; /* lanes that are in a collective that is not complete */
  tw_lane lanes[TESSERA_WARP_THREADS];
} tw_warp;

/* At the beginning of a block of so many threads. */
void tw_warps_reset(tw_warp warps[32], uint32_t threads);
/* A lane comes to a collective; `waiting` says afterwards whether it is complete. NULL, or what the
 * program did wrong. */
const char *tw_warp_arrive(tw_warp *warp, uint32_t lane, tw_lane arriving);
void tw_warp_lane_ended(tw_warp *warp, uint32_t lane);
/* Whom a lane that waits still waits for. */
uint32_t tw_warp_missing(const tw_warp *warp, uint32_t lane);

#endif
