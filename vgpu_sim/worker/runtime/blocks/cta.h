/* Execution, on the calling thread of the pool, of blocks whose threads share memory or wait for
 * each other. */
#ifndef TESSERA_WORKER_CTA_H
#define TESSERA_WORKER_CTA_H

#include "blocks/barriers.h"
#include "base/fiber.h"
#include "tessera_abi.h"
#include "tessera_worker.h"
#include "blocks/warps.h"

/* The code that a backend has generated for a kernel and one block shape. */
typedef struct tw_code {
  uint64_t entry;       /* a tessera_kernel_entry, or a tessera_group_entry if there are groups */
  uint32_t groups;      /* groups of lanes per block that wait for each other; 0: nothing waits */
  uint32_t stack_bytes; /* size of the stack that a group needs */
  uint32_t counts;      /* number of lanes in a group, if barriers are counted; else 0 */
  uint32_t polls;       /* whether it waits for memory that other blocks write */
  uint32_t provisional; /* whether better code may replace it */
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
  tessera_launch_context context; /* first, because the code gets a pointer to it */
  tw_code code;
  tw_code better;        /* used by blocks that start after `is_improved` is set */
  uint32_t is_improved;  /* atomic; set once */
  uint32_t shared_bytes; /* of a block */
  uint32_t room;         /* atomic: number of blocks that may start while others only wait */
} tw_launch;

/* Return the code for the blocks that start now. A block ends in the code in which it started,
 * because the code determines the grouping of lanes, and so the stacks, barriers and local
 * memory. What blocks share does not depend on the code. */
static inline const tw_code *tw_code_now(const tw_launch *launch) {
  return __atomic_load_n(&launch->is_improved, __ATOMIC_ACQUIRE) ? &launch->better : &launch->code;
}

/* Return the index in the grid of the block with a rank in a cluster. */
static inline uint64_t tw_block_of(const tessera_launch_context *context, uint64_t number,
                                   uint32_t rank) {
  const uint32_t *grid = context->grid, *size = context->cluster;
  uint64_t place[3];
  for (int axis = 0; axis < 3; axis++) {
    const uint64_t clusters = grid[axis] / size[axis];
    place[axis] = number % clusters * size[axis] + rank % size[axis];
    number /= clusters;
    rank /= size[axis];
  }
  return place[0] + grid[0] * (place[1] + grid[1] * place[2]);
}

/* execute.c: a tessera_kernel_entry; the context is that of a tw_launch. */
void tw_blocks_run(const tessera_launch_context *context, const uint8_t *parameters, uint64_t first,
                   uint64_t end, tessera_thread_state *thread);
/* Run blocks: tw_cta_run those that wait (`code` has groups), tw_shared_run all others. */
void tw_cta_run(tw_launch *launch, const tw_code *code, const uint8_t *parameters, uint64_t first,
                uint64_t end);
void tw_shared_run(const tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                   uint64_t first, uint64_t end, tessera_thread_state *thread);
/* The same with shared memory at `base`. */
void tw_shared_run_at(uint64_t base, const tw_launch *launch, const tw_code *code,
                      const uint8_t *parameters, uint64_t first, uint64_t end,
                      tessera_thread_state *thread);

/* Free what the calling thread has needed for blocks; it runs no more blocks. */
void tw_cta_end_thread(void);

/* The local memory of a block's threads: a window, created when it is first needed. */
typedef struct tw_local {
  uint64_t base;       /* 0: not created yet */
  uint64_t accessible; /* number of bytes from `base` on */
} tw_local;

/* The blocks of a cluster, of which each is one run, and their barrier. */
typedef struct tw_cluster {
  uint64_t phase;   /* how often the barrier has completed */
  uint32_t live;    /* groups that have not ended */
  uint32_t arrived; /* of these, groups that have arrived in this phase */
  uint32_t count;   /* blocks */
  tw_cta *blocks[TESSERA_MAX_CLUSTER_BLOCKS];
} tw_cluster;

/* cta.c: one block, or several in sequence, with its groups of lanes. */
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
  tw_warp warps[TW_WARPS]; /* used if each lane is a group */
  tw_cluster *cluster;
  tw_cluster alone;        /* the cluster of a block that is one */
  tw_fiber *at_cluster;    /* groups that wait for the cluster's barrier */
  tw_fiber *ring;          /* runnable groups, beginning with the next one */
  uint32_t rests;          /* how often groups have rested since something else has run */
  /* every group since this one has only polled; NULL: a group has made progress */
  const tw_fiber *resting;
  uint32_t left;           /* number of groups that have finished all blocks, or this one */
  const tw_fiber *failed;
  const char *failure; /* NULL: it executed a trap */
};

/* Prepare to run blocks of a launch, with shared memory at `shared_base`. `cluster` is NULL if each
 * block is a cluster. */
void tw_cta_prepare(tw_cta *c, const tw_launch *launch, const tw_code *code,
                    const uint8_t *parameters, uint64_t shared_base, tw_fiber *home,
                    tw_cluster *cluster);
/* Start the next blocks: several, or only one for code that polls or counts. */
void tw_cta_begin(tw_cta *c, uint64_t first, uint64_t end);
/* Run the groups until the blocks end; false if all groups only wait for other blocks. Does not
 * return if a group fails. */
bool tw_cta_continue(tw_cta *c);
/* Return whether a group can continue, or polls; if not, all that have not ended wait for the rest of
 * the cluster. */
static inline bool tw_cta_may_continue(const tw_cta *c) { return c->ring != NULL; }
/* End the context, because no group of a block's cluster can make progress. */
void tw_cta_fail_stuck(tw_cta *c) __attribute__((noreturn));

/* clusters.c: a tessera_kernel_entry for launches with clusters of several blocks, which `first` and
 * `end` number; the context is that of a tw_launch. */
void tw_clusters_run(const tessera_launch_context *context, const uint8_t *parameters,
                     uint64_t first, uint64_t end, tessera_thread_state *thread);
void tw_clusters_end_thread(void);

/* tensor.c: see tessera_thread_state.multiply. */
uint32_t tw_tensor_multiply(uint64_t shared_base, const uint32_t *words);
void tw_tensor_end_thread(void);

/* shared.c: return a window of the given size, possibly 0, for the blocks of the calling thread.
 * Does not return if memory is lacking. */
uint64_t tw_shared_window(uint32_t bytes);
/* Reserve the range that code may access around the base that is returned; 0: there is no room. */
uint64_t tw_shared_reserve(void);
void tw_shared_release(uint64_t base);
void tw_shared_clear(uint64_t base, uint64_t bytes);
void tw_shared_end_thread(void);

/* Round a thread's local memory up to whole words, because code interleaves the local memory of
 * a group's lanes. */
static inline uint64_t tw_local_stride(uint64_t bytes) { return (bytes + 3) & ~UINT64_C(3); }
/* local.c: provide local memory for a block's `threads`, `bytes` each. Does not return if memory
 * is lacking. */
void tw_local_prepare(tw_local *window, uint64_t bytes, uint32_t threads);
void tw_local_close(tw_local *window);

/* pool.c: claim the launch's next blocks for the calling thread, which is running blocks; false:
 * none are left. The claimed blocks must have run when the thread returns to the pool. */
bool tw_pool_claim(uint64_t *first, uint64_t *end);

#endif
