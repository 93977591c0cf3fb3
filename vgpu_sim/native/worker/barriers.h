/* The barriers of a block, counted as docs/isa.md says: by whole warps.
 *
 * Who arrives are groups of lanes, each within one warp; the lanes of a group that have not ended
 * arrive together. */
#ifndef TESSERA_WORKER_BARRIERS_H
#define TESSERA_WORKER_BARRIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_abi.h"

enum { TW_BARRIERS = 16, TW_WARPS = TESSERA_MAX_THREADS_PER_BLOCK / TESSERA_WARP_THREADS };

typedef struct tw_barrier {
  bool open;           /* somebody has come to it */
  uint32_t count;      /* threads that complete it; 0: all warps that have not ended */
  uint32_t threads;    /* that have arrived: 32 for a warp */
  uint32_t arrived;    /* warps, a bit each */
  uint32_t generation; /* how often it was complete */
  struct {
    uint32_t gathering; /* groups that are there while the warp is not */
    uint32_t gathered;  /* how often the warp was */
    uint32_t awaited;   /* generation when it was last */
  } warps[TW_WARPS];
} tw_barrier;

typedef struct tw_barriers {
  uint32_t warp_count;
  uint32_t live_warps; /* a bit each */
  uint32_t live_groups[TW_WARPS];
  tw_barrier barriers[TW_BARRIERS];
} tw_barriers;

/* At the beginning of a block of `threads` in `groups`. */
void tw_barriers_reset(tw_barriers *b, uint32_t threads, uint32_t groups);
/* A group of a warp arrives. NULL, or what the program did wrong. */
const char *tw_barriers_arrive(tw_barriers *b, uint32_t warp, uint32_t number, uint32_t count,
                               bool waits);
void tw_barriers_group_ended(tw_barriers *b, uint32_t warp);

#endif
