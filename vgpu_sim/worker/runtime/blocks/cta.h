/* Blocks whose threads share memory or wait for each other, on the calling thread of the pool. */
#ifndef TESSERA_WORKER_CTA_H
#define TESSERA_WORKER_CTA_H

#include "blocks/barriers.h"
#include "base/fiber.h"
#include "tessera_abi.h"
#include "tessera_worker.h"
#include "blocks/warps.h"

/* What a backend made of a kernel for one block shape. */
typedef struct tw_code {
  uint64_t entry;       /* a tessera_kernel_entry, or a tessera_group_entry if there are groups */
  uint32_t groups;      /* of lanes that wait for each other, of a block; 0: nothing waits */
  uint32_t stack_bytes; /* that a group needs */
  uint32_t counts;      /* lanes of a group, where such come to barriers that are counted; or 0 */
  uint32_t polls;       /* whether they wait for what others, of any block, write to memory */
  uint32_t provisional; /* whether better code is being compiled; else it stays */
} tw_code;

static inline tw_code tw_code_of(const tessera_worker_call *call) {
  return (tw_code){.entry = call->entry,
                   .groups = call->groups,
                   .stack_bytes = call->stack_bytes,
                   .counts = call->counts,
                   .polls = call->polls,
                   .provisional = call->provisional};
}

typedef struct tw_launch {
  tessera_launch_context context; /* first: what the code knows the launch by */
  tw_code code;
  tw_code better;        /* where the launch is improved: for the blocks that begin from then on */
  uint32_t is_improved;  /* atomic; set once */
  uint32_t shared_bytes; /* of a block */
  uint32_t room;         /* blocks that may be begun while others only wait; atomic */
} tw_launch;

/* The code for the blocks that begin now. A block ends in the code in which it began: how lanes are
 * grouped, and so its stacks, barriers and local memory, is the code's own affair. What blocks share
 * does not depend on it. */
static inline const tw_code *tw_code_now(const tw_launch *launch) {
  return __atomic_load_n(&launch->is_improved, __ATOMIC_ACQUIRE) ? &launch->better : &launch->code;
}

/* execute.c: a tessera_kernel_entry; the context is that of a tw_launch. */
void tw_blocks_run(const tessera_launch_context *context, const uint8_t *parameters, uint64_t first,
                   uint64_t end, tessera_thread_state *thread);
/* Blocks that wait (`code` has groups), and others. */
void tw_cta_run(tw_launch *launch, const tw_code *code, const uint8_t *parameters, uint64_t first,
                uint64_t end);
void tw_shared_run(const tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                   uint64_t first, uint64_t end, tessera_thread_state *thread);

/* Gives back what the calling thread needed for that; it runs no block any more. */
void tw_cta_end_thread(void);

/* The local memory of a block's threads: a window of its own, made when it is first needed. */
typedef struct tw_local {
  uint64_t base;       /* 0: not yet */
  uint64_t accessible; /* bytes from there on */
} tw_local;

/* cta.c: one block, or one after the other, and its groups of lanes. */
struct tw_cta {
  tw_fiber *home; /* the thread's own stack */
  tw_stacks stacks;
  const tw_launch *launch;
  const tw_code *code; /* of this launch, for all blocks of this run */
  const uint8_t *parameters;
  uint64_t shared_base;
  tw_local local;
  uint64_t first, end; /* blocks */
  struct {
    uint32_t arrived;
    uint32_t generation;
  } end_of_block;
  tw_barriers barriers;
  tw_warp warps[TW_WARPS]; /* where each lane is a group */
  tw_fiber *ring;          /* who takes turns: from the next one on, while none of them runs */
  uint32_t rests;          /* of all groups, since something else has run */
  const tw_fiber *resting; /* since whom all have only polled; NULL: somebody has got on */
  uint32_t left;           /* groups that have run all blocks, or this one */
  const tw_fiber *failed;
  const char *failure; /* NULL: it executed a trap */
};

/* Prepares to run blocks of a launch, with shared memory that begins at `shared_base`. */
void tw_cta_prepare(tw_cta *c, const tw_launch *launch, const tw_code *code,
                    const uint8_t *parameters, uint64_t shared_base, tw_fiber *home);
/* The next blocks to run: as many as there are, of a launch that polls or counts one. */
void tw_cta_begin(tw_cta *c, uint64_t first, uint64_t end);
/* Lets the groups run, up to the end of the blocks, or until all that they do is wait for others
 * than each other: then false. Does not return where a group fails. */
bool tw_cta_continue(tw_cta *c);

/* shared.c: a window of that many bytes, 0 too, for the blocks of the calling thread. Does not
 * return where there is no memory. */
uint64_t tw_shared_window(uint32_t bytes);
void tw_shared_clear(uint64_t base, uint64_t bytes);
void tw_shared_end_thread(void);

/* What a thread that has `bytes` of local memory takes of its block's: whole words, as code lays
 * those of a group's lanes side by side. */
static inline uint64_t tw_local_stride(uint64_t bytes) { return (bytes + 3) & ~UINT64_C(3); }
/* local.c: makes a window hold the local memory of a block's `threads`, `bytes` each. Does not
 * return where there is no memory. */
void tw_local_prepare(tw_local *window, uint64_t bytes, uint32_t threads);
void tw_local_close(tw_local *window);

/* pool.c: the calling thread, which runs blocks, takes the next ones of its launch; false: none are
 * left. It has run them when it returns from what the pool called. */
bool tw_pool_claim(uint64_t *first, uint64_t *end);

#endif
