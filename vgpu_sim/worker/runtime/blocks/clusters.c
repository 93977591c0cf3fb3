/* Clusters of several blocks. All blocks of a cluster are resident on one thread of the pool, which runs
 * them in turn; a block's shared memory remains until the last block of its cluster has ended.
 *
 * The shared memory of the block with rank r is mapped at the base of this block, and also
 * (TESSERA_CLUSTER_FIRST_STEP + r) * TESSERA_CLUSTER_STEP_BYTES above the base of each block of the
 * cluster. So an address that names a rank is an ordinary address of shared memory, and it is the
 * same in all blocks of the cluster. Around each base, the range that code may access is reserved
 * and inaccessible, as for other blocks.
 *
 * A peer's memory is mapped when the block first accesses it, because a process may have only some ten
 * thousands of mappings (vm.max_map_count), and each peer takes two. A thread that has mapped too many
 * removes those of its other blocks, which map them again. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "blocks/cta.h"
#include "blocks/room.h"
#include "blocks/rounds.h"
#include "base/internal.h"
#include "base/platform.h"

/* The blocks of a cluster wait for each other, so it needs more rounds than a block. */
enum { PATIENCE_ROUNDS = 32, KEPT = 1 };
enum { MOST_PEERS = 12288 }; /* that are mapped at a time, in all threads */

/* The distance of the memory of rank 0 from a block's base. */
#define FIRST_PEER_BYTES (TESSERA_CLUSTER_FIRST_STEP * TESSERA_CLUSTER_STEP_BYTES)

typedef struct resident {
  tw_cluster cluster;
  tw_cta *blocks[TESSERA_MAX_CLUSTER_BLOCKS]; /* some are kept for later clusters */
  uint64_t bases[TESSERA_MAX_CLUSTER_BLOCKS]; /* of the shared memory; 0: none */
  uint32_t peers[TESSERA_MAX_CLUSTER_BLOCKS]; /* that are mapped for a block, a bit each */
  uint32_t mapped;                            /* for so many blocks */
  uint64_t mapped_bytes;
  uint32_t ended; /* blocks, a bit each */
} resident;

/* The clusters of one thread. The first `count` are in use. */
static __thread struct {
  tw_fiber home; /* the thread's own stack */
  resident **all;
  uint32_t made, count;
  resident *running; /* NULL: none */
  uint32_t rank;     /* of its running block */
  uint64_t window;   /* the shared memory of blocks without a cluster; 0: none */
} mine;

static uint32_t peers_mapped; /* atomic; in all threads */

static const char NO_MEMORY[] =
    "no memory, or too few mappings (vm.max_map_count), for the blocks of a cluster";

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

static void forget_peers(resident *r, uint32_t rank) {
  __atomic_sub_fetch(&peers_mapped, (uint32_t)__builtin_popcount(r->peers[rank]), __ATOMIC_RELAXED);
  r->peers[rank] = 0;
}

static void unmap(resident *r) {
  for (uint32_t i = 0; i < TESSERA_MAX_CLUSTER_BLOCKS; i++) {
    forget_peers(r, i);
    if (r->bases[i] != 0) tw_shared_release(r->bases[i]);
  }
  memset(r->bases, 0, sizeof r->bases);
  r->mapped = 0;
}

/* Remove the mappings of peers in all blocks of this thread except the running one. */
static void unmap_other_peers(void) {
  for (uint32_t n = 0; n < mine.made; n++) {
    resident *r = mine.all[n];
    for (uint32_t i = 0; i < r->mapped; i++) {
      if (r->peers[i] == 0 || (r == mine.running && i == mine.rank)) continue;
      if (mmap(at(r->bases[i] + FIRST_PEER_BYTES), r->mapped * TESSERA_CLUSTER_STEP_BYTES,
               PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0) == MAP_FAILED)
        tw_die_out_of_memory(NO_MEMORY);
      forget_peers(r, i);
    }
  }
}

/* Map the memory of the block with rank `rank` a second time, for the running block. */
static bool map_peer(resident *r, uint32_t rank) {
  const uint64_t place = r->bases[mine.rank] + FIRST_PEER_BYTES + rank * TESSERA_CLUSTER_STEP_BYTES;
  return mremap(at(r->bases[rank]), 0, r->mapped_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at(place)) !=
         MAP_FAILED;
}

/* Map the memory of a peer in which the running block has accessed an address; false: the address is
 * in none, or is mapped. It is called by the fault handler. */
static bool map_accessed(uint64_t address) {
  resident *r = mine.running;
  const uint64_t distance = address - r->bases[mine.rank] - FIRST_PEER_BYTES;
  const uint64_t rank = distance / TESSERA_CLUSTER_STEP_BYTES;
  if (rank >= r->mapped || distance % TESSERA_CLUSTER_STEP_BYTES >= r->mapped_bytes ||
      (r->peers[mine.rank] >> rank & 1))
    return false;
  if (__atomic_add_fetch(&peers_mapped, 1, __ATOMIC_RELAXED) > MOST_PEERS) unmap_other_peers();
  if (!map_peer(r, (uint32_t)rank)) {
    unmap_other_peers();
    if (!map_peer(r, (uint32_t)rank)) tw_die_out_of_memory(NO_MEMORY);
  }
  r->peers[mine.rank] |= UINT32_C(1) << rank;
  return true;
}

/* Provide shared memory for `count` blocks of `bytes` each. */
static void provide_memory(resident *r, uint32_t count, uint64_t bytes) {
  bytes = tw_whole_pages(bytes);
  if (r->mapped == count && r->mapped_bytes == bytes) return;
  unmap(r);
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t base = r->bases[i] = tw_shared_reserve();
    if (base == 0) tw_die_out_of_memory(NO_MEMORY);
    if (bytes != 0 && mmap(at(base), bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      tw_die_out_of_memory(NO_MEMORY);
  }
  r->mapped = count;
  r->mapped_bytes = bytes;
}

static uint32_t blocks_of(const tessera_launch_context *context) {
  return context->cluster[0] * context->cluster[1] * context->cluster[2];
}

/* Return an unused entry with memory for the blocks of a cluster. */
static resident *next_resident(const tw_launch *launch) {
  if (mine.count == mine.made) {
    resident **more = realloc(mine.all, (mine.made + 1) * sizeof *more);
    if (more != NULL) mine.all = more;
    if (more == NULL || (more[mine.made] = calloc(1, sizeof **more)) == NULL)
      tw_die_out_of_memory(NO_MEMORY);
    mine.made++;
  }
  resident *r = mine.all[mine.count];
  provide_memory(r, blocks_of(&launch->context), launch->shared_bytes);
  return r;
}

/* Start a cluster. */
static void begin(tw_launch *launch, const uint8_t *parameters, uint64_t number) {
  const uint32_t count = blocks_of(&launch->context);
  const tw_code *code = tw_code_now(launch);
  resident *r = next_resident(launch);
  r->ended = 0;
  r->cluster = (tw_cluster){.live = count * code->groups, .count = count};
  for (uint32_t i = 0; i < count; i++) {
    if (r->blocks[i] == NULL && (r->blocks[i] = calloc(1, sizeof *r->blocks[i])) == NULL)
      tw_die_out_of_memory(NO_MEMORY);
    const uint64_t block = tw_block_of(&launch->context, number, i);
    r->cluster.blocks[i] = r->blocks[i];
    tw_cta_prepare(r->blocks[i], launch, code, parameters, r->bases[i], &mine.home, &r->cluster);
    tw_cta_begin(r->blocks[i], block, block + 1);
  }
  mine.count++;
}

static void end_one(uint32_t index) {
  resident *ended = mine.all[index];
  mine.count--;
  memmove(&mine.all[index], &mine.all[index + 1], (mine.count - index) * sizeof *mine.all);
  mine.all[mine.count] = ended;
}

static void enter_block(resident *r, uint32_t rank, const tw_launch *launch) {
  mine.running = r;
  mine.rank = rank;
  tw_current.shared_window = r->bases[rank];
  tw_current.shared_bytes = launch->shared_bytes;
  tw_current.map_accessed = map_accessed;
  tw_current.bases = r->bases;
  tw_current.rank = rank;
  tw_current.blocks = r->mapped;
}

static void leave_blocks(void) {
  mine.running = NULL;
  tw_current.shared_window = mine.window;
  tw_current.map_accessed = NULL;
  tw_current.bases = NULL;
}

/* Let each block of a cluster run once. Returns whether the cluster has ended; `progress` is set if a
 * block has. */
static bool run_cluster(resident *r, const tw_launch *launch, bool *progress) {
  bool ran = false;
  for (uint32_t i = 0; i < r->cluster.count; i++) {
    if ((r->ended >> i & 1) || !tw_cta_may_continue(r->blocks[i])) continue;
    ran = true;
    enter_block(r, i, launch);
    if (!tw_cta_continue(r->blocks[i])) continue;
    r->ended |= UINT32_C(1) << i;
    *progress = true;
  }
  const bool ended = r->ended == (UINT32_C(1) << r->cluster.count) - 1;
  if (!ran && !ended) tw_cta_fail_stuck(r->blocks[__builtin_ctz(~r->ended)]);
  return ended;
}

/* Run every cluster once; returns whether a block has ended. */
static bool run_round(tw_launch *launch, bool back) {
  bool progress = false;
  for (uint32_t left = mine.count, turn = 0; left > 0; left--) {
    const uint32_t index = back ? left - 1 : turn;
    if (run_cluster(mine.all[index], launch, &progress)) {
      end_one(index);
      if (mine.count > 0) tw_room_give(launch);
    } else {
      turn++;
    }
  }
  return progress;
}

static uint32_t count(void) { return mine.count; }

static void free_one(resident *r) {
  unmap(r);
  for (uint32_t i = 0; i < TESSERA_MAX_CLUSTER_BLOCKS; i++) {
    if (r->blocks[i] == NULL) continue;
    tw_stacks_close(&r->blocks[i]->stacks);
    tw_local_close(&r->blocks[i]->local);
    free(r->blocks[i]);
  }
  free(r);
}

static void keep_few(void) {
  while (mine.made > KEPT && mine.made > mine.count) free_one(mine.all[--mine.made]);
}

/* Run clusters whose groups may wait. They wait for other clusters only if they poll. */
static void run_waiting(tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                        uint64_t first, uint64_t end) {
  const tw_rounds rounds = {.patience = code->polls ? PATIENCE_ROUNDS : 0,
                            .count = count,
                            .begin = begin,
                            .run = run_round};
  tw_fiber_adopt_thread(&mine.home);
  tw_rounds_run(&rounds, launch, parameters, first, end);
  keep_few();
}

/* Run clusters in which nothing waits: block after block, with the memory of all. */
static void run_plain(tw_launch *launch, const tw_code *code, const uint8_t *parameters,
                      uint64_t first, uint64_t end, tessera_thread_state *thread) {
  const uint32_t count = blocks_of(&launch->context);
  resident *r = next_resident(launch);
  for (; first != end; first++) {
    for (uint32_t i = 0; i < count; i++) tw_shared_clear(r->bases[i], launch->shared_bytes);
    for (uint32_t i = 0; i < count; i++) {
      const uint64_t block = tw_block_of(&launch->context, first, i);
      enter_block(r, i, launch);
      tw_shared_run_at(r->bases[i], launch, code, parameters, block, block + 1, thread);
    }
  }
}

void tw_clusters_run(const tessera_launch_context *context, const uint8_t *parameters,
                     uint64_t first, uint64_t end, tessera_thread_state *thread) {
  tw_launch *launch = (tw_launch *)(uintptr_t)context;
  const tw_code *code = tw_code_now(launch);
  mine.window = tw_current.shared_window;
  if (code->groups != 0)
    run_waiting(launch, code, parameters, first, end);
  else
    run_plain(launch, code, parameters, first, end, thread);
  leave_blocks();
}

void tw_clusters_end_thread(void) {
  if (mine.running != NULL) leave_blocks();
  mine.count = 0;
  while (mine.made > 0) free_one(mine.all[--mine.made]);
  free(mine.all);
  mine.all = NULL;
}
